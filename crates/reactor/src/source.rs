//! Limits on connections from one source address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use parking_lot::Mutex;

/// Source of connections as limits count it: an IPv4 address, also if it is mapped to IPv6, or the
/// 64 leading bits of an IPv6 address. A host usually owns all addresses with the same 64 bits, and
/// could evade a limit on a single one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(Network);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Network {
    V4(Ipv4Addr),
    V6([u8; 8]),
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => Network::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Network::V6([a, b, c, d, e, f, g, h])
            }
        })
    }
}

/// Numbers of connections by source, over all workers. Empty unless sources are limited.
///
/// ```
/// use std::net::IpAddr;
///
/// use reactor::{Source, SourceCounts};
///
/// let source = |address: &str| Source::from(address.parse::<IpAddr>().unwrap());
/// let counts = SourceCounts::default();
/// assert!(counts.enter(source("2001:db8::1"), 1));
/// assert!(!counts.enter(source("2001:db8::2"), 1), "the same /64 network");
/// counts.leave(source("2001:db8::1"));
/// assert!(counts.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct SourceCounts(Mutex<HashMap<Source, u32>>);

impl SourceCounts {
    /// Counts a connection, unless its source has `limit` connections. Returns whether it was
    /// counted.
    pub fn enter(&self, source: Source, limit: u32) -> bool {
        let mut counts = self.0.lock();
        let count = counts.get(&source).copied().unwrap_or(0);
        let admitted = count < limit;
        if admitted {
            counts.insert(source, count + 1);
        }
        admitted
    }

    /// Removes a connection that [`enter`](Self::enter) counted.
    pub fn leave(&self, source: Source) {
        let mut counts = self.0.lock();
        if let Some(count) = counts.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&source);
            }
        }
    }

    /// Whether no connection is counted.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_an_ipv4_address_or_an_ipv6_network_of_64_bits() {
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.1"));
        assert_ne!(source("::ffff:192.0.2.1"), source("::ffff:192.0.2.2"));
        assert_eq!(
            source("2001:db8:1:2::1"),
            source("2001:db8:1:2:ffff:ffff:ffff:ffff")
        );
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
        // Not a mapped IPv4 address, although the low bits are the same.
        assert_ne!(source("::1"), source("0.0.0.1"));
    }

    #[test]
    fn a_network_of_64_bits_has_the_limit_of_one_address() {
        let counts = SourceCounts::default();
        let network =
            |host: u16| Source::from(format!("2001:db8::{host:x}").parse::<IpAddr>().unwrap());
        assert!((0..3).all(|host| counts.enter(network(host), 3)));
        assert!(!counts.enter(network(3), 3));
        counts.leave(network(1));
        assert!(counts.enter(network(4), 3));
        (0..3).for_each(|_| counts.leave(network(9)));
        assert!(counts.is_empty());
    }

    #[test]
    fn a_refused_source_leaves_no_entry() {
        let counts = SourceCounts::default();
        assert!(!counts.enter(IpAddr::from([192, 0, 2, 1]).into(), 0));
        assert!(counts.is_empty());
    }
}
