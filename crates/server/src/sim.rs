//! Simulation: the real worker over a simulated network, in virtual time, checked against a model.

mod net;
mod client;
mod parts;
mod world;
mod texts;
mod tokens;
mod websocket_client;
mod laws;
mod readers;
mod lives;
mod resumes;
mod stories;
#[expect(
    clippy::duplicate_mod,
    reason = "stories are run over both kinds of listeners"
)]
mod stories_over_tls;
mod stages;
