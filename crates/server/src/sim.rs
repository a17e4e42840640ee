//! Simulation: the real worker over a simulated network, in virtual time, checked against a model.

mod net;
mod world;
mod laws;
mod stories;
mod stages;
