//! Addresses of clients, as side tables keep them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Address in 18 bytes, as a million clients may be behind proxies.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedAddress {
    ip: Ipv6Addr,
    port: [u8; 2],
}

impl From<SocketAddr> for PackedAddress {
    fn from(address: SocketAddr) -> Self {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let port = address.port().to_ne_bytes();
        Self { ip, port }
    }
}

impl From<PackedAddress> for SocketAddr {
    fn from(packed: PackedAddress) -> Self {
        let PackedAddress { ip, port } = packed;
        Self::new(IpAddr::V6(ip).to_canonical(), u16::from_ne_bytes(port))
    }
}
