//! The Erlang distribution protocol, spoken without a BEAM.
//!
//! Knows no HTTP. Modules in the order in which bytes meet them:

/// Terms in external format: read where they lie, measured before they are looked at.
pub mod term;
