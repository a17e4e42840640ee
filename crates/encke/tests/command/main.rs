//! Tests of the `encke` binary: its output and exit codes.

#[expect(
    clippy::disallowed_methods,
    reason = "lines wait without a bound, so that the command under test never does"
)]
mod support;

mod activation;
mod clients;
mod ending;
mod help;
mod starting;
mod reload;
