//! Laws of the store over a disk that fails.

mod crash;
mod fail;
mod log;
mod private;
mod races;
mod refuse;
