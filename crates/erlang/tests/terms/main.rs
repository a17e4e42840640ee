//! Properties of terms, also checked against a BEAM.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod value;
mod laws;
mod refused;
#[expect(
    clippy::disallowed_methods,
    reason = "writes the program that a BEAM runs"
)]
mod beam;
