//! Simulation: the real worker over a simulated network, in virtual time, checked against a model.
//!
//! The tests of other crates have what is not private here, with the feature `sim`.

#[cfg(test)]
mod client;
mod parts;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod world;
#[cfg_attr(not(test), expect(dead_code, reason = "stories use all of it"))]
mod texts;
#[cfg(test)]
mod tokens;
#[cfg_attr(not(test), expect(dead_code, reason = "stories use all of it"))]
mod websocket_frames;
#[cfg(test)]
mod websocket_client;
#[cfg(test)]
mod laws;
mod notices;
mod station;
mod external;
#[cfg(feature = "sim")]
mod identities;
#[cfg_attr(not(test), expect(dead_code, reason = "stories use all of it"))]
mod readers;
mod server;
#[cfg(test)]
mod lives;
#[cfg(test)]
mod resumes;
#[cfg(test)]
mod stories;
#[cfg(test)]
#[expect(
    clippy::duplicate_mod,
    reason = "stories are run over both kinds of listeners"
)]
mod stories_over_tls;
#[cfg(test)]
mod stages;

pub use external::SimExternal;
pub use notices::Notice;
pub use readers::{ClientState, Edges, Posted, Reader, STREAMS, WEBSOCKET, is_served, notices};
pub use server::{SimClient, SimServer};
pub use simulated::SimDriver;
pub use simulated::network::LISTENER;
