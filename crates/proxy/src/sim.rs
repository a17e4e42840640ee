//! A simulated network and poller in virtual time, for the tests of both servers.

/// Clients, backends, and the state of every socket.
mod network;
/// The network as a worker sees it.
mod driver;
/// An event loop that acts only when a poller would have returned.
mod simulated_loop;

pub(crate) use driver::SimDriver;
pub(crate) use network::{Behaviour, Peer, SharedNetwork, connected_client, network};
pub(crate) use simulated_loop::SimulatedLoop;
