//! Reasons why a server does not start.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use router::WORKERS_MAX;

/// Reason why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// The number of workers asked for is none or more than can be addressed.
    Workers(u16),
    /// There is no listener.
    NoListener,
    /// Two listeners have this address.
    Twice(SocketAddr),
    /// A listener for TLS, but no certificate.
    NoCertificate(SocketAddr),
    /// The address is in use.
    AddressInUse(SocketAddr),
    /// The listener cannot be bound to the address.
    Bind(SocketAddr, io::Error),
    /// A worker could not be set up.
    Worker(u16, io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workers(count) => {
                write!(
                    f,
                    "the number of workers is {count}; it must be from 1 to {WORKERS_MAX}"
                )
            }
            Self::NoListener => write!(
                f,
                "there is no public listener; give an address with --listen"
            ),
            Self::Twice(address) => write!(
                f,
                "two listeners have the address {address}; remove one, or give it another address"
            ),
            Self::NoCertificate(address) => write!(
                f,
                "the TLS listener at {address} has no certificate; give one with --tls-cert and \
                 --tls-key"
            ),
            Self::AddressInUse(address) => write!(
                f,
                "{address} is in use: another program, or another Encke, listens on it; stop it, \
                 or choose another address with --listen"
            ),
            Self::Bind(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Worker(number, error) => write!(
                f,
                "worker {number} could not be started: {error}; each worker needs four descriptors \
                 and a thread"
            ),
        }
    }
}

impl std::error::Error for StartError {}
