//! What simulations simulate: a disk, a network with its clock, and the dice that decide what
//! happens to them.
//!
//! Knows none of the crates that are tested with it but `reactor`, whose traits it implements. A
//! crate that has a trait of its own implements it for the simulated thing, in a few lines.

/// A disk that loses power, tears writes and fails.
pub mod disk;
/// A network whose sockets take a part, take nothing, break or end.
pub mod network;
/// Random numbers from a seed.
mod dice;
/// Driver of a worker over this network.
mod driver;
/// Random lives from seeds.
mod lives;
/// Turns that a worker takes only when a real poller would have returned.
mod turns;

pub use dice::Dice;
pub use driver::SimDriver;
pub use lives::{
    Life, Trace, assert_life_passes, assert_lives_pass, assert_the_same_seed_is_the_same_life,
    seeds, with_seed,
};
pub use turns::Turns;
