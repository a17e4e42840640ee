//! Networks of addresses.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

/// Network in CIDR notation (RFC 4632, section 3.1): an address and the number of leading bits
/// that count. A single address is the network of all its bits.
///
/// ```
/// use auth::Network;
///
/// let network: Network = "10.1.0.0/16".parse().unwrap();
/// assert!(network.contains("10.1.2.3".parse().unwrap()));
/// assert!(network.contains("::ffff:10.1.2.3".parse().unwrap()), "the same host by IPv6");
/// assert!(!network.contains("10.2.0.1".parse().unwrap()));
/// assert!("10.1.2.3/16".parse::<Network>().is_err(), "bits beyond the prefix");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Reason why a text is not a [`Network`]. Its `Display` is a sentence for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// No IP address.
    #[error("it is not an IP address; write one like 10.0.0.0/8 or ::1")]
    Address,
    /// A prefix that is not a number, or longer than the address.
    #[error("the length behind the slash must be a number from 0 to 32, or to 128 for IPv6")]
    Prefix,
    /// Bits beyond the prefix are set.
    #[error(
        "the address has bits beyond the length behind the slash; set them to zero, or leave the \
         length out for a single address"
    )]
    HostBits,
}

impl Network {
    /// Returns whether `address` is in the network. An IPv4-mapped address of IPv6 counts as the
    /// IPv4 address in it (RFC 4291, section 2.5.5.2).
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let differing = bits(self.address) ^ bits(address);
        let shifted = differing.checked_shr(self.host_bits());
        self.address.is_ipv4() == address.is_ipv4() && shifted.unwrap_or_default() == 0
    }

    /// Returns the number of bits behind the prefix.
    fn host_bits(&self) -> u32 {
        let all = if self.address.is_ipv4() { 32 } else { 128 };
        all - u32::from(self.prefix)
    }

    fn has_host_bits(&self) -> bool {
        bits(self.address).trailing_zeros() < self.host_bits()
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Address)?;
        let address = address.to_canonical();
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let prefix = digits.parse().map_err(|_| NetworkError::Prefix)?;
                if prefix > bits {
                    return Err(NetworkError::Prefix);
                }
                prefix
            }
            Some(_) => return Err(NetworkError::Prefix),
        };
        let network = Self { address, prefix };
        if network.has_host_bits() {
            return Err(NetworkError::HostBits);
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(network: &str, address: &str) -> bool {
        let network: Network = network.parse().unwrap();
        network.contains(address.parse().unwrap())
    }

    #[test]
    fn a_network_contains_exactly_the_addresses_with_its_prefix() {
        assert!(contains("0.0.0.0/0", "255.255.255.255"));
        assert!(contains("127.0.0.1", "127.0.0.1"));
        assert!(!contains("127.0.0.1", "127.0.0.2"));
        assert!(contains("192.168.4.0/22", "192.168.7.255"));
        assert!(!contains("192.168.4.0/22", "192.168.8.0"));
        assert!(contains("::/0", "2001:db8::1"));
        assert!(contains("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(!contains("2001:db8::/32", "2001:db9::"));
        assert!(contains("::1", "::1"));
    }

    #[test]
    fn all_addresses_of_one_family_hold_none_of_the_other() {
        assert!(!contains("0.0.0.0/0", "::1"));
        assert!(!contains("::/0", "10.0.0.1"));
        assert!(!contains("::/0", "::ffff:10.0.0.1"), "is an IPv4 address");
    }

    #[test]
    fn what_is_not_a_network_is_refused() {
        for (text, error) in [
            ("", NetworkError::Address),
            ("localhost", NetworkError::Address),
            ("10.0.0/8", NetworkError::Address),
            ("10.0.0.0/", NetworkError::Prefix),
            ("10.0.0.0/33", NetworkError::Prefix),
            ("10.0.0.0/+8", NetworkError::Prefix),
            ("10.0.0.0/8/8", NetworkError::Prefix),
            ("::/129", NetworkError::Prefix),
            ("::/999", NetworkError::Prefix),
            ("10.0.0.1/8", NetworkError::HostBits),
            ("2001:db8::1/64", NetworkError::HostBits),
        ] {
            assert_eq!(text.parse::<Network>(), Err(error), "{text}");
        }
    }
}
