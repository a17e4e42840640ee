//! The listeners of the server: those from a service manager, and the configured ones.

use std::net::{SocketAddr, TcpListener};

use cli::failure::Failure;
use server::Listener;

use super::inherited::Inherited;
use crate::config::{Addresses, Config};

/// Listeners to open: addresses, or sockets from a service manager.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) public: Vec<Listener>,
    pub(super) control: control::Listen,
    /// Addresses of all listeners.
    pub(super) addresses: Addresses,
}

impl Listeners {
    /// Collects the listeners, and checks that none gives access without authorization. Sockets
    /// of a role from a service manager replace the configured addresses of that role.
    pub(super) fn new(config: &Config, inherited: Inherited) -> Result<Self, Failure> {
        let mut addresses = config.addresses.clone();
        let mut public = collect(&mut addresses.public, inherited.public)?;
        let tls = collect(&mut addresses.tls, inherited.tls)?;
        public.extend(tls.into_iter().map(Listener::with_tls));
        let control = match inherited.control {
            Some(listener) => {
                addresses.control = address_of(&listener)?;
                control::Listen::Inherited(listener)
            }
            None => control::Listen::Address(addresses.control),
        };
        addresses.check(config).map_err(Failure::Misused)?;
        Ok(Self {
            public,
            control,
            addresses,
        })
    }

    /// Returns whether the page may publish (`--demo`). It may only if other machines reach no
    /// listener, because the page's requests have no token.
    pub(super) fn allow_demo(&self, config: &Config) -> bool {
        let is_private = self.addresses.are_private() && config.tokens.is_empty();
        if config.demo && !is_private {
            tracing::warn!(
                "the page cannot publish: --demo needs all listeners on loopback and no control \
                 token"
            );
        }
        config.demo && is_private
    }
}

/// Returns the public listeners of a role: the sockets from a service manager, whose addresses
/// replace the configured ones, or else the latter.
fn collect(
    addresses: &mut Vec<SocketAddr>,
    inherited: Vec<TcpListener>,
) -> Result<Vec<Listener>, Failure> {
    if inherited.is_empty() {
        return Ok(addresses.iter().copied().map(Listener::bind).collect());
    }
    let bound = inherited.iter().map(address_of);
    *addresses = bound.collect::<Result<_, _>>()?;
    Ok(inherited.into_iter().map(Listener::inherited).collect())
}

fn address_of(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener.local_addr().map_err(Failure::failed)
}
