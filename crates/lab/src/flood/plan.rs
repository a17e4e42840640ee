//! Source addresses and ports: decided here, because the kernel's own choice ends at the size of
//! its port range for one destination.

use std::net::{Ipv4Addr, SocketAddrV4};

/// First port that a client is bound to: above the ports of most listeners.
const PORT_FIRST: u16 = 10_000;

/// Clients of one source address. A port is taken at most once an address, and half the range is
/// left for ports that turn out to be in use.
pub const CLIENTS_PER_SOURCE: u32 = 25_000;

/// Ports of one source address.
const PORTS: u32 = 50_000;

/// Addresses set apart for each thread, so that threads need not agree on ports.
const SOURCES_PER_THREAD: u32 = 256;

/// The source addresses of one thread's clients, in the order in which they are used.
#[derive(Debug, Clone)]
pub struct Plan {
    first: u32,
    sources: u32,
    used: u32,
}

impl Plan {
    /// The plan of thread `index` for `clients` clients, counted from the address `base`.
    pub fn of_thread(base: Ipv4Addr, index: u32, clients: u32) -> Self {
        let sources = clients
            .div_ceil(CLIENTS_PER_SOURCE)
            .clamp(1, SOURCES_PER_THREAD - 1);
        Self {
            first: u32::from(base) + index * SOURCES_PER_THREAD + 1,
            sources,
            used: 0,
        }
    }

    /// The next address and port; nothing when all are used.
    pub fn assign(&mut self) -> Option<SocketAddrV4> {
        let (port, source) = (self.used / self.sources, self.used % self.sources);
        if port == PORTS {
            return None;
        }
        self.used += 1;
        let port = PORT_FIRST + u16::try_from(port).expect("fewer ports than 65,536");
        Some(SocketAddrV4::new(Ipv4Addr::from(self.first + source), port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_clients_get_the_same_source() {
        let base = Ipv4Addr::new(127, 1, 0, 0);
        let mut seen = HashSet::new();
        for thread in 0..3 {
            let mut plan = Plan::of_thread(base, thread, 60_000);
            for _ in 0..60_000 {
                assert!(seen.insert(plan.assign().unwrap()));
            }
        }
        assert!(
            seen.iter()
                .all(|source| source.ip().octets()[..2] == [127, 1])
        );
    }

    #[test]
    fn a_plan_ends_when_its_ports_do() {
        let mut plan = Plan::of_thread(Ipv4Addr::new(127, 1, 0, 0), 0, 1);
        let count = std::iter::from_fn(|| plan.assign()).count();
        assert_eq!(count, PORTS as usize);
    }
}
