//! Public listeners of a server, and their addresses.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use reactor::{Acceptor, ListenerOptions, Reservation, System};

use crate::start_error::StartError;

/// Public listener of a server.
#[derive(Debug)]
pub struct Listener {
    /// The listening socket.
    pub socket: ListenerSocket,
    /// Protocol of its connections.
    pub kind: ListenerKind,
}

/// Listening socket of a [`Listener`].
#[derive(Debug)]
pub enum ListenerSocket {
    /// To be bound; port 0 stands for any free port. Each worker has a socket of its own.
    Bind(SocketAddr),
    /// Bound and listening already, inherited from a service manager. Shared by all workers.
    Inherited(TcpListener),
}

/// Protocol of the connections that a listener accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListenerKind {
    /// HTTP/1.
    Plain,
    /// HTTP/1 over TLS.
    Tls,
}

impl Listener {
    /// Makes a plain listener that is to be bound to `address`.
    pub const fn bind(address: SocketAddr) -> Self {
        Self {
            socket: ListenerSocket::Bind(address),
            kind: ListenerKind::Plain,
        }
    }

    /// Makes a plain listener of a socket that a service manager passed on.
    pub const fn inherited(listener: TcpListener) -> Self {
        Self {
            socket: ListenerSocket::Inherited(listener),
            kind: ListenerKind::Plain,
        }
    }

    /// Makes the listener's connections begin with a TLS handshake.
    #[must_use]
    pub fn with_tls(self) -> Self {
        Self {
            kind: ListenerKind::Tls,
            ..self
        }
    }
}

/// Listener of a server whose address is claimed for all workers.
#[derive(Debug)]
pub(crate) struct ClaimedListener {
    socket: ClaimedSocket,
    address: SocketAddr,
    kind: ListenerKind,
}

#[derive(Debug)]
enum ClaimedSocket {
    Reserved(Reservation),
    Inherited(TcpListener),
}

impl ClaimedListener {
    /// Claims the addresses of all listeners.
    pub(crate) fn claim_all(listeners: Vec<Listener>) -> Result<Vec<Self>, StartError> {
        let mut claimed: Vec<Self> = Vec::with_capacity(listeners.len());
        for Listener { socket, kind } in listeners {
            let (socket, address) = match socket {
                ListenerSocket::Bind(address) => {
                    let mut own = claimed.iter().map(|listener| listener.address);
                    if own.clone().any(|own| own == address) {
                        return Err(StartError::Twice(address));
                    }
                    let beside = own.any(|own| overlap(own, address));
                    let reservation = claim(address, beside)?;
                    let address = reservation.address();
                    (ClaimedSocket::Reserved(reservation), address)
                }
                ListenerSocket::Inherited(listener) => {
                    let address = listener.local_addr();
                    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
                    let address = address.map_err(|error| StartError::Bind(unknown, error))?;
                    (ClaimedSocket::Inherited(listener), address)
                }
            };
            claimed.push(Self {
                socket,
                address,
                kind,
            });
        }
        if claimed.is_empty() {
            return Err(StartError::NoListener);
        }
        Ok(claimed)
    }

    /// Returns the address, with the port that was bound.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns whether its connections begin with a TLS handshake.
    pub(crate) fn is_tls(&self) -> bool {
        self.kind == ListenerKind::Tls
    }

    /// Returns the listener for one worker.
    ///
    /// # Errors
    ///
    /// When no descriptor is left for the worker's copy of an inherited socket.
    pub(crate) fn for_worker(&self) -> io::Result<Listener> {
        let socket = match &self.socket {
            ClaimedSocket::Reserved(it) => ListenerSocket::Bind(it.address()),
            ClaimedSocket::Inherited(it) => ListenerSocket::Inherited(it.try_clone()?),
        };
        let kind = self.kind;
        Ok(Listener { socket, kind })
    }
}

impl Listener {
    /// Opens the listener of a worker. With a private descriptor table, the worker itself must do
    /// so.
    ///
    /// # Errors
    ///
    /// Those of `socket`, `setsockopt`, `bind`, `listen` and `epoll_ctl`.
    pub(crate) fn open(
        self,
        acceptor: &mut Acceptor<OwnedFd, ListenerKind>,
        driver: &mut System,
        options: &ListenerOptions,
    ) -> io::Result<()> {
        use reactor::Driver as _;
        acceptor.open(driver, self.kind, |driver, token| match self.socket {
            ListenerSocket::Bind(address) => driver.listen(address, options, token),
            ListenerSocket::Inherited(it) => driver.adopt(it.into(), options, token),
        })
    }
}

/// Returns whether two addresses have one port, and one of them stands for all addresses of the
/// machine.
const fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && is_any
}

fn claim(address: SocketAddr, beside: bool) -> Result<Reservation, StartError> {
    let claimed = match beside {
        true => Reservation::claim_beside(address),
        false => Reservation::claim(address),
    };
    claimed.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => StartError::AddressInUse(address),
        _ => StartError::Bind(address, error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn claim_all(addresses: &[&str]) -> Result<Vec<ClaimedListener>, StartError> {
        let listeners = addresses.iter().map(|text| Listener::bind(address(text)));
        ClaimedListener::claim_all(listeners.collect())
    }

    #[test]
    fn each_listener_keeps_its_address_and_kind_in_the_order_given() {
        let loopback = address("127.0.0.1:0");
        let inherited = TcpListener::bind(loopback).unwrap();
        let bound = inherited.local_addr().unwrap();
        let listeners = vec![
            Listener::bind(loopback),
            Listener::inherited(inherited).with_tls(),
            Listener::bind(loopback).with_tls(),
        ];
        let claimed = ClaimedListener::claim_all(listeners).unwrap();
        let kinds: Vec<_> = claimed.iter().map(|one| one.kind).collect();
        use ListenerKind::{Plain, Tls};
        assert_eq!(kinds, [Plain, Tls, Tls]);
        assert_eq!(claimed[1].address(), bound);
        assert_ne!(claimed[0].address(), claimed[2].address());
        assert!(claimed.iter().all(|one| one.address().port() != 0));
    }

    #[test]
    fn an_address_given_twice_is_named() {
        let first = Reservation::claim(address("127.0.0.1:0")).unwrap();
        let taken = first.address();
        drop(first);
        let taken = taken.to_string();
        let error = claim_all(&[&taken, &taken]).unwrap_err();
        assert!(matches!(error, StartError::Twice(_)), "{error}");
    }

    #[test]
    fn a_wildcard_address_may_stand_beside_a_single_one() {
        let options = ListenerOptions {
            backlog: 1,
            user_timeout: std::time::Duration::from_secs(1),
            keepalive: None,
            defer_accept: None,
            fast_open: None,
            send_buffer: None,
        };
        let free = claim_all(&["127.0.0.1:0"]).unwrap()[0].address();
        let any = format!("0.0.0.0:{}", free.port());
        let claimed = claim_all(&[&free.to_string(), &any]).unwrap();
        let open = claimed
            .iter()
            .map(|one| reactor::listen(one.address(), &options));
        assert!(open.collect::<io::Result<Vec<_>>>().is_ok());
        // Another server finds the port taken.
        let listening = reactor::listen(free, &options).unwrap();
        let error = claim_all(&[&any]).unwrap_err();
        assert!(matches!(error, StartError::AddressInUse(_)), "{error}");
        drop(listening);
    }

    #[test]
    fn a_server_without_listeners_does_not_start() {
        let error = ClaimedListener::claim_all(Vec::new()).unwrap_err();
        assert!(matches!(error, StartError::NoListener), "{error}");
    }
}
