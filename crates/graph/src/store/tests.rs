//! Tests of the store on failing disks.

mod crash;
mod fail;
mod log;
mod private;
mod races;
mod refuse;
