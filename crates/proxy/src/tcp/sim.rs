//! The real worker between two simulated sides, in virtual time, with what each side said as the judge.

mod net;
mod world;
mod streams;
mod stories;
