//! Source addresses and ports of clients. They are assigned here if the kernel's own choice would
//! run out: for one destination it is limited to its port range.
//!
//! Divides the pairs of address and port among threads, so that threads need no coordination. Opens
//! no socket, except to look up the route to the server.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;

use super::sources::Sources;
use machine::failure::{Failure, Outcome};

/// Ports of a loopback source address: above those of most listeners, which may be bound to all
/// addresses of the machine.
const LOOPBACK_PORTS: RangeInclusive<u16> = 10_000..=59_999;

/// Ports of any other source address: all unprivileged ports.
const PORTS: RangeInclusive<u16> = 1024..=65_535;

/// Clients of one source address while there are enough addresses: half of the ports are spare, as
/// some may be in use.
const CLIENTS_PER_SOURCE: u32 = 25_000;

/// File with the kernel's port range.
const RANGE_FILE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Division of source addresses and ports among the threads of a flood.
#[derive(Debug, Clone)]
pub struct Plan {
    connections: u32,
    threads: u32,
    /// Addresses and ports that clients are bound to. `None`: the kernel chooses them.
    bound: Option<Bound>,
}

#[derive(Debug, Clone)]
struct Bound {
    sources: Sources,
    ports: RangeInclusive<u16>,
    /// Number of addresses of each thread; `None` if all threads use all addresses and divide the
    /// ports.
    own: Option<u32>,
}

impl Plan {
    /// Plans `connections` clients of `server` on `threads` threads, from the `wanted` sources or
    /// else from suitable ones. The error says how many sources are needed.
    ///
    /// # Errors
    ///
    /// When the sources do not fit the server's address family, or have too few ports for all
    /// connections.
    pub fn new(
        wanted: Option<&Sources>,
        server: SocketAddr,
        connections: u32,
        threads: u32,
    ) -> Outcome<Self> {
        let sources = match wanted {
            Some(sources) if !sources.fit(server.ip()) => {
                return Err(Failure::new(format!(
                    "the server is at {}, but a --source is of the other address family",
                    server.ip()
                )));
            }
            Some(sources) => Some(sources.clone()),
            None if server.ip().is_loopback() && server.is_ipv4() => Some(Sources::loopback()),
            None if connections <= kernel_ports() => None,
            None => Some(sources_with_route_to(server).ok_or_else(|| {
                Failure::new(format!(
                    "{connections} clients are more than the {} ports that the kernel chooses \
                     from, and no address of this machine has a route to {server}: give --source",
                    kernel_ports()
                ))
            })?),
        };
        let bound = sources.map(|sources| bound(sources, server, connections, threads));
        Ok(Self {
            connections,
            threads,
            bound: bound.transpose()?,
        })
    }

    /// Describes the plan in a sentence.
    pub fn explain(&self) -> String {
        let clients = self.connections;
        let Some(bound) = &self.bound else {
            return format!(
                "the kernel chooses the source address and port of each of {clients} clients, from \
                 {} ports",
                kernel_ports()
            );
        };
        let used = bound.used(self.threads);
        let first = bound.sources.at(0);
        let addresses = match used {
            1 => format!("from {first}"),
            _ => format!(
                "from {used} addresses, {first} to {}",
                bound.sources.at(used - 1)
            ),
        };
        format!(
            "{clients} clients are bound {addresses}, to about {} of the ports {} to {} of each: \
             the kernel's own choice would end at {} clients",
            clients.div_ceil(used.max(1)),
            bound.ports.start(),
            bound.ports.end(),
            kernel_ports(),
        )
    }

    /// Returns the part of thread `index`.
    pub(super) fn of_thread(&self, index: u32) -> SourceAllocator {
        let part = self.bound.as_ref().map(|bound| {
            let (first, count, port, step) = match bound.own {
                Some(own) => (index * own, own, *bound.ports.start(), 1),
                None => {
                    let port = *bound.ports.start() + (index % bound.port_count()) as u16;
                    (0, bound.sources.count(), port, self.threads)
                }
            };
            Part {
                sources: bound.sources.clone(),
                first,
                count,
                port: port.into(),
                step,
                ports: (u32::from(*bound.ports.end()) - u32::from(port)) / step + 1,
            }
        });
        SourceAllocator { part, used: 0 }
    }
}

impl Bound {
    fn port_count(&self) -> u32 {
        u32::from(*self.ports.end()) - u32::from(*self.ports.start()) + 1
    }

    /// Returns how many of the addresses are used.
    fn used(&self, threads: u32) -> u32 {
        self.own
            .map_or(self.sources.count(), |own| own * threads.max(1))
    }
}

/// Divides `sources`, with separate addresses for each thread if there are enough.
fn bound(sources: Sources, server: SocketAddr, connections: u32, threads: u32) -> Outcome<Bound> {
    let ports = match server.ip().is_loopback() {
        true => LOOPBACK_PORTS,
        false => PORTS,
    };
    let share = connections.div_ceil(threads);
    let own = share.div_ceil(CLIENTS_PER_SOURCE).max(1);
    let bound = Bound {
        own: (own.saturating_mul(threads) <= sources.count()).then_some(own),
        sources,
        ports,
    };
    if bound.own.is_none() {
        let count = bound.sources.count();
        // Clients that fit a thread's part of the ports, over all addresses.
        let room = (bound.port_count() / threads).saturating_mul(count);
        if share > room {
            return Err(Failure::new(format!(
                "{connections} clients need {} source addresses of {} ports each, but there {} \
                 {count}: give more with --source, as a block like 127.1.0.0/16 for a server on \
                 loopback or after `ip address add ADDRESS dev INTERFACE` for another",
                connections.div_ceil(bound.port_count()),
                bound.port_count(),
                if count == 1 { "is" } else { "are" },
            )));
        }
    }
    Ok(bound)
}

/// Returns the addresses of the interface that has the route to `server`.
fn sources_with_route_to(server: SocketAddr) -> Option<Sources> {
    let any: SocketAddr = match server.ip() {
        IpAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        IpAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    // Nothing is sent: the kernel only looks up the route.
    socket.connect(server).ok()?;
    Sources::beside(socket.local_addr().ok()?.ip())
}

/// Returns the number of ports that the kernel chooses from for one destination.
fn kernel_ports() -> u32 {
    let text = fs::read_to_string(RANGE_FILE).unwrap_or_default();
    let mut ends = text.split_whitespace().map(str::parse::<u32>);
    match (ends.next(), ends.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => last - first,
        // Linux's default.
        _ => 60_999 - 32_768,
    }
}

/// Iterator over the source addresses and ports of one thread.
#[derive(Debug)]
pub(super) struct SourceAllocator {
    part: Option<Part>,
    used: u32,
}

#[derive(Debug)]
struct Part {
    sources: Sources,
    first: u32,
    count: u32,
    port: u32,
    step: u32,
    ports: u32,
}

impl SourceAllocator {
    /// Whether clients are bound to assigned addresses.
    pub(super) fn binds(&self) -> bool {
        self.part.is_some()
    }

    /// Returns the next address and port. After the last it starts again with the first, which may
    /// be free again if clients reconnect.
    pub(super) fn assign(&mut self) -> Option<SocketAddr> {
        let part = self.part.as_ref()?;
        let (round, source) = (self.used / part.count, self.used % part.count);
        let port = part.port + (round % part.ports) * part.step;
        self.used = self.used.wrapping_add(1);
        let port = u16::try_from(port).expect("a part ends with the port range");
        Some(SocketAddr::new(part.sources.at(part.first + source), port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn loopback() -> SocketAddr {
        ([127, 0, 0, 1], 8000).into()
    }

    fn distinct(plan: &Plan, threads: u32, each: u32) -> HashSet<SocketAddr> {
        let mut seen = HashSet::new();
        for index in 0..threads {
            let mut part = plan.of_thread(index);
            for _ in 0..each {
                assert!(seen.insert(part.assign().unwrap()), "thread {index}");
            }
        }
        seen
    }

    #[test]
    fn no_two_clients_get_the_same_source() {
        let plan = Plan::new(None, loopback(), 180_000, 3).unwrap();
        let seen = distinct(&plan, 3, 60_000);
        assert!(seen.iter().all(|source| source.port() >= 10_000));
        let addresses: HashSet<IpAddr> = seen.iter().map(SocketAddr::ip).collect();
        assert_eq!(addresses.len(), 9);
        assert!(
            plan.explain()
                .contains("from 9 addresses, 127.1.0.1 to 127.1.0.9")
        );
    }

    #[test]
    fn threads_divide_the_ports_if_addresses_are_few() {
        let sources: Sources = "127.7.0.1,127.7.0.2".parse().unwrap();
        let plan = Plan::new(Some(&sources), loopback(), 99_000, 3).unwrap();
        let seen = distinct(&plan, 3, 33_000);
        let addresses: HashSet<IpAddr> = seen.iter().map(SocketAddr::ip).collect();
        assert_eq!(addresses.len(), 2);
    }

    #[test]
    fn too_few_addresses_are_an_error_with_the_number_needed() {
        let sources: Sources = "127.7.0.1".parse().unwrap();
        let error = Plan::new(Some(&sources), loopback(), 120_000, 1).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("120000 clients need 3 source addresses of 50000 ports each"),
            "{error}"
        );
        let server: SocketAddr = "[::1]:80".parse().unwrap();
        assert!(Plan::new(Some(&sources), server, 1, 1).is_err());
    }

    #[test]
    fn a_few_clients_of_another_machine_are_left_to_the_kernel() {
        let server: SocketAddr = ([192, 0, 2, 1], 80).into();
        let plan = Plan::new(None, server, 100, 1).unwrap();
        assert_eq!(plan.of_thread(0).assign(), None);
        assert!(plan.explain().starts_with("the kernel chooses"));
    }

    #[test]
    fn a_port_is_used_again_only_after_all_others() {
        let sources: Sources = "127.7.0.1".parse().unwrap();
        let plan = Plan::new(Some(&sources), loopback(), 1, 1).unwrap();
        let mut part = plan.of_thread(0);
        let first = part.assign();
        let between = (1..50_000).filter(|_| part.assign() == first).count();
        assert_eq!((between, part.assign()), (0, first));
    }
}
