//! Stage 1: new connections.
//!
//! A connection is read before it is watched: its request has usually come with it, and a poll is
//! saved.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use reactor::SlotKey;
use reactor::{Accepted, Driver, Tick};

use crate::clock::Tenths;
use crate::connection::{CloseReason, Connection, Phase, Watched};
use crate::limits::{ACCEPT_PAUSE, ACCEPTS_PER_TURN, PAUSE_WARNING_INTERVAL};
use crate::stats::Metric;
use crate::worker::Worker;

/// Whether a worker accepts. Paused while descriptors have run out: the listener stays readable then
/// and would spin the loop.
#[derive(Debug, Default)]
pub(crate) struct Accepting {
    paused_until: Option<Tick>,
    warned: Option<Tick>,
    /// Where connections come from, kept only while addresses are limited.
    peers: HashMap<u32, Origin>,
}

/// What counts as one address: an IPv4 address, however it is spelt, or the 64 leading bits of an IPv6
/// address. A host usually has all addresses that share these, and could take any number of places by
/// changing the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    V4(Ipv4Addr),
    V6([u8; 8]),
}

impl Origin {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// Connections by origin, over all workers. Empty unless addresses are limited.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Mutex<HashMap<Origin, u32>>);

impl Addresses {
    /// Counts a connection, unless its origin has as many as it may.
    fn enter(&self, address: Origin, limit: u32) -> bool {
        let mut addresses = self.0.lock();
        let count = addresses.entry(address).or_default();
        let admitted = *count < limit;
        *count += u32::from(admitted);
        admitted
    }

    fn leave(&self, address: Origin) {
        let mut addresses = self.0.lock();
        if let Some(count) = addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&address);
            }
        }
    }
}

impl Accepting {
    pub(crate) fn resume_in(&self, now: Tick) -> Option<Duration> {
        self.paused_until.map(|until| until.since(now))
    }
}

/// Whether a connection may stay.
enum Admission {
    Admitted,
    Refused(Metric),
}

impl<D: Driver> Worker<D> {
    pub(crate) fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            self.stats.add(Metric::Accepts, 1);
            match self.driver.accept() {
                Accepted::Connection(socket, peer) => self.admit(socket, peer.ip()),
                Accepted::Nobody => return,
                Accepted::Gone => {}
                Accepted::Exhausted(errno) => return self.pause_accepting(errno.into()),
            }
        }
    }

    fn admit(&mut self, socket: D::Socket, peer: IpAddr) {
        self.stats.add(Metric::Accepted, 1);
        let key = self.connections.insert(Connection {
            socket,
            since: Tenths::of(self.clock.now),
            owed: None,
            phase: Phase::Head { partial: false },
            due: Tenths::NEVER,
            blocked: false,
            watched: Watched::Nothing,
            admitted: false,
        });
        self.stats.add(Metric::Connections, 1);
        match self.admission(key.index, peer) {
            Admission::Admitted => {
                if let Some(connection) = self.connection(key) {
                    connection.admitted = true;
                }
                self.on_readable(key, false);
            }
            Admission::Refused(limit) => {
                self.stats.add(limit, 1);
                self.refuse(key);
            }
        }
        self.watch(key);
    }

    /// Counts a connection in, unless a limit is reached. One that is refused lingers for a moment and
    /// takes no place: it would shut out those whom the limit of its address is to protect.
    fn admission(&mut self, slot: u32, peer: IpAddr) -> Admission {
        let shared = &self.shared;
        if let Some(limit) = shared.settings.max_connections_per_address {
            let origin = Origin::of(peer);
            if !shared.addresses.enter(origin, limit) {
                return Admission::Refused(Metric::RefusedAddress);
            }
            self.accepting.peers.insert(slot, origin);
        }
        if shared.connections.fetch_add(1, Ordering::Relaxed) >= shared.settings.max_connections {
            self.give_place_back(slot);
            return Admission::Refused(Metric::RefusedServer);
        }
        Admission::Admitted
    }

    fn give_place_back(&mut self, slot: u32) {
        self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(peer) = self.accepting.peers.remove(&slot) {
            self.shared.addresses.leave(peer);
        }
    }

    /// Begins to report the connection's edges, unless it is about to go already.
    fn watch(&mut self, key: SlotKey) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if connection.phase == Phase::Closed {
            return;
        }
        self.stats.add(Metric::Watches, 1);
        match self.driver.watch(&connection.socket, key.into()) {
            Ok(()) => {
                connection.watched = Watched::Input;
                if connection.blocked {
                    self.watch_writable(key);
                }
                self.time(key);
            }
            // The kernel's memory for watches has run out: as good as no descriptor.
            Err(error) => {
                self.close(key, CloseReason::Rejected);
                self.pause_accepting(error);
            }
        }
    }

    fn pause_accepting(&mut self, error: std::io::Error) {
        let now = self.clock.now;
        if self.accepting.paused_until.is_none() {
            self.stats.add(Metric::AcceptPauses, 1);
            self.driver.pause_accepting(true);
        }
        self.accepting.paused_until = Some(now.after(ACCEPT_PAUSE));
        if self
            .accepting
            .warned
            .is_none_or(|warned| now.since(warned) >= PAUSE_WARNING_INTERVAL)
        {
            self.accepting.warned = Some(now);
            tracing::warn!(
                worker = self.id.0,
                connections = self.connections.len(),
                %error,
                "no room for another connection, accepting pauses; raise the limit on open files \
                 (ulimit -n, LimitNOFILE=) or use --workers N --private-fds"
            );
        }
    }

    /// Accepts again when the pause is over.
    pub(crate) fn resume_accepting(&mut self) {
        if self
            .accepting
            .paused_until
            .is_some_and(|until| until <= self.clock.now)
        {
            self.accepting.paused_until = None;
            self.driver.pause_accepting(false);
        }
    }

    /// A connection is gone from its slot: its place is free, if it had one.
    pub(crate) fn leave(&mut self, slot: u32, admitted: bool) {
        if admitted {
            self.give_place_back(slot);
        }
        // Who finds a connection less finds its place free.
        self.stats.take(Metric::Connections, 1);
        // A descriptor is free: no need to wait the pause out.
        if self.accepting.paused_until.is_some() {
            self.accepting.paused_until = Some(self.clock.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_an_ipv4_address_or_an_ipv6_network_of_64_bits() {
        let origin = |text: &str| Origin::of(text.parse().unwrap());
        assert_ne!(origin("192.0.2.1"), origin("192.0.2.2"));
        assert_eq!(origin("192.0.2.1"), origin("::ffff:192.0.2.1"));
        assert_ne!(origin("::ffff:192.0.2.1"), origin("::ffff:192.0.2.2"));
        assert_eq!(
            origin("2001:db8:1:2::1"),
            origin("2001:db8:1:2:ffff:ffff:ffff:ffff")
        );
        assert_ne!(origin("2001:db8:1:2::1"), origin("2001:db8:1:3::1"));
        // Not an IPv4 address, although its low bits are those of one that is mapped.
        assert_ne!(origin("::1"), origin("0.0.0.1"));
    }

    #[test]
    fn a_whole_network_has_the_places_of_one_address() {
        let addresses = Addresses::default();
        let network = |host: u16| Origin::of(format!("2001:db8::{host:x}").parse().unwrap());
        assert!((0..3).all(|host| addresses.enter(network(host), 3)));
        assert!(!addresses.enter(network(3), 3));
        addresses.leave(network(1));
        assert!(addresses.enter(network(4), 3));
        (0..3).for_each(|_| addresses.leave(network(9)));
        assert!(addresses.0.lock().is_empty());
    }
}
