//! The real worker over a simulated network, in virtual time, with a model as the judge.

mod net;
mod world;
mod laws;
mod stories;
mod stages;
