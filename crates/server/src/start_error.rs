//! Reasons why a server does not start.

use std::io;
use std::net::SocketAddr;

use router::WORKERS_MAX;

/// Reason why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The number of workers asked for is none or more than can be addressed.
    #[error("the number of workers is {0}; it must be from 1 to {WORKERS_MAX}")]
    Workers(u16),
    /// There is no listener.
    #[error("there is no public listener; give an address with --listen")]
    NoListener,
    /// Two listeners have this address.
    #[error("two listeners have the address {0}; remove one, or give it another address")]
    Twice(SocketAddr),
    /// A listener for TLS, but no certificate.
    #[error("the TLS listener at {0} has no certificate; give one with --tls-cert and --tls-key")]
    NoCertificate(SocketAddr),
    /// The address is in use.
    #[error(
        "{0} is in use: another program, or another Encke, listens on it; stop it, or choose \
         another address with --listen"
    )]
    AddressInUse(SocketAddr),
    /// The listener cannot be bound to the address.
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, io::Error),
    /// A worker could not be set up.
    #[error(
        "worker {0} could not be started: {1}; each worker needs four descriptors and a thread"
    )]
    Worker(u16, io::Error),
}
