//! Laws of the log over a disk that fails, against a model that keeps every event for ever.

mod world;
mod crash;
mod fail;
mod damage;
mod files;
mod races;
