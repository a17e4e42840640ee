//! A simulated network and poller in virtual time, for the tests of both servers.

/// Clients, backends, and the state of each socket.
mod network;
/// The driver of a worker over this network.
mod driver;
/// Event loop that runs a turn only when a real poller would have returned.
mod simulated_loop;

pub(crate) use driver::SimDriver;
pub(crate) use network::{Behaviour, Peer, SharedNetwork, connected_client, network};
pub(crate) use simulated_loop::SimulatedLoop;
