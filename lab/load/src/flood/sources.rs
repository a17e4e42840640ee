//! Source addresses as given with `--source`: an address, a block, an interface, or a list of
//! these.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use nix::ifaddrs::getifaddrs;

/// Addresses to connect from, in order of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    blocks: Vec<Block>,
}

/// Consecutive addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    first: IpAddr,
    count: u32,
}

impl Sources {
    /// Returns the loopback addresses that clients use by default: 127.1.0.0/16.
    pub fn loopback() -> Self {
        Self {
            blocks: vec![of_network(Ipv4Addr::new(127, 1, 0, 0), 16)],
        }
    }

    /// Returns all addresses, of the same family, of the interface that has `address`.
    pub fn beside(address: IpAddr) -> Option<Self> {
        let all: Vec<(String, IpAddr)> = interfaces();
        let name = all.iter().find(|(_, found)| *found == address)?.0.clone();
        of_interface(&all, &name, Some(address.is_ipv4()))
    }

    /// Returns the number of addresses.
    pub fn count(&self) -> u32 {
        self.blocks
            .iter()
            .fold(0, |sum, block| sum.saturating_add(block.count))
    }

    /// Returns address number `place`, which must be below [`Sources::count`].
    pub fn at(&self, place: u32) -> IpAddr {
        let mut below = place;
        for block in &self.blocks {
            if below < block.count {
                return match block.first {
                    IpAddr::V4(first) => Ipv4Addr::from(u32::from(first) + below).into(),
                    first => first,
                };
            }
            below -= block.count;
        }
        unreachable!("a place is below the count of addresses")
    }

    /// Whether all addresses are of the family of `server`.
    pub(super) fn fit(&self, server: IpAddr) -> bool {
        let is_ipv4 = server.is_ipv4();
        self.blocks
            .iter()
            .all(|block| block.first.is_ipv4() == is_ipv4)
    }
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut blocks = Vec::new();
        for part in text.split(',').map(str::trim) {
            if let Some((address, prefix)) = part.split_once('/') {
                let network = address.parse().ok().zip(prefix.parse().ok());
                let (address, prefix) = network
                    .filter(|(_, prefix)| (8..=32).contains(prefix))
                    .ok_or_else(|| {
                        format!("`{part}` is not a block of IPv4 addresses like 127.1.0.0/16")
                    })?;
                blocks.push(of_network(address, prefix));
            } else if let Ok(first) = part.parse() {
                blocks.push(Block { first, count: 1 });
            } else {
                let found = of_interface(&interfaces(), part, None).ok_or_else(|| {
                    format!(
                        "`{part}` is neither an address, nor a block like 127.1.0.0/16, nor an \
                         interface of this machine with an address"
                    )
                })?;
                blocks.extend(found.blocks);
            }
        }
        Ok(Self { blocks })
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.count().saturating_sub(1);
        match last {
            0 => write!(out, "{}", self.at(0)),
            _ => write!(out, "{} to {}", self.at(0), self.at(last)),
        }
    }
}

/// Returns the host addresses of a network, without network and broadcast address.
fn of_network(address: Ipv4Addr, prefix: u32) -> Block {
    let size = 1u32 << (32 - prefix);
    let start = u32::from(address) & !(size - 1);
    let (first, count) = if size > 2 {
        (start + 1, size - 2)
    } else {
        (start, size)
    };
    Block {
        first: Ipv4Addr::from(first).into(),
        count,
    }
}

/// Returns the addresses that can be used as source, each with the name of its interface.
fn interfaces() -> Vec<(String, IpAddr)> {
    let Ok(found) = getifaddrs() else {
        return Vec::new();
    };
    found
        .filter_map(|interface| {
            let address = interface.address?;
            let ip = address
                .as_sockaddr_in()
                .map(|address| IpAddr::from(address.ip()))
                .or_else(|| Some(address.as_sockaddr_in6()?.ip().into()))?;
            // A link-local address needs a scope id, which is not stored here.
            let is_link_local = matches!(ip, IpAddr::V6(ip) if ip.segments()[0] & 0xffc0 == 0xfe80);
            (!is_link_local).then_some((interface.interface_name, ip))
        })
        .collect()
}

fn of_interface(all: &[(String, IpAddr)], name: &str, only_ipv4: Option<bool>) -> Option<Sources> {
    let mut of_name: Vec<IpAddr> = all
        .iter()
        .filter(|(found, _)| found == name)
        .map(|(_, ip)| *ip)
        .collect();
    // Only one family can reach the server: the first address decides, unless the caller does.
    let is_ipv4 = only_ipv4.or_else(|| Some(of_name.first()?.is_ipv4()))?;
    of_name.retain(|ip| ip.is_ipv4() == is_ipv4);
    let blocks = of_name
        .into_iter()
        .map(|first| Block { first, count: 1 })
        .collect::<Vec<Block>>();
    (!blocks.is_empty()).then_some(Sources { blocks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        let sources: Sources = text.parse().unwrap();
        (0..sources.count())
            .map(|place| sources.at(place).to_string())
            .collect()
    }

    #[test]
    fn addresses_blocks_and_lists_are_read() {
        assert_eq!(all("10.0.0.7"), ["10.0.0.7"]);
        assert_eq!(all("127.1.0.5/30"), ["127.1.0.5", "127.1.0.6"]);
        assert_eq!(all("10.0.0.7/32, 10.0.0.9"), ["10.0.0.7", "10.0.0.9"]);
        assert_eq!(all("127.1.0.0/16").len(), 65_534);
        assert_eq!(all("127.1.0.0/16")[65_533], "127.1.255.254");
        for wrong in [
            "",
            "127.1.0.0/33",
            "127.1.0.0/x",
            "no-such-interface0",
            "10.0.0.7,",
        ] {
            assert!(wrong.parse::<Sources>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_interface_means_its_addresses() {
        assert!(all("lo").contains(&"127.0.0.1".to_owned()));
        let beside = Sources::beside(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert!(beside.fit(Ipv4Addr::LOCALHOST.into()));
        assert!(!beside.fit(std::net::Ipv6Addr::LOCALHOST.into()));
    }
}
