//! Kinds of hosts in `Host` and `Origin` fields.
//!
//! Owns the rule for names that lead to this machine only. Must never resolve a name.

// Host names that a listener answers to.
mod allowed;

pub use allowed::{AllowedHosts, HostPattern, HostPatternError};

use core::net::IpAddr;

/// Kind of host in a `Host` field or an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// `localhost` or a name below it, which no resolver may send elsewhere (RFC 6761, section
    /// 6.3).
    Localhost,
    /// An IP address, which DNS cannot redirect.
    Address(IpAddr),
    /// Any other name, or none: the owner of the name in DNS decides where it leads.
    Name,
}

impl Host {
    /// Parses `uri-host [ ":" port ]` (RFC 9110, section 7.2). Any other text is a
    /// [`Name`](Self::Name).
    pub fn of(authority: &str) -> Self {
        let (host, _) = split_port(authority);
        if let Some(bracketed) = host.strip_prefix('[') {
            let address = bracketed.strip_suffix(']').unwrap_or_default();
            return match address.parse() {
                Ok(address @ IpAddr::V6(_)) => Self::Address(address),
                _ => Self::Name,
            };
        }
        if let Ok(address @ IpAddr::V4(_)) = host.parse() {
            return Self::Address(address);
        }
        let last_label = host.rsplit('.').next().unwrap_or_default();
        if last_label.eq_ignore_ascii_case("localhost") {
            Self::Localhost
        } else {
            Self::Name
        }
    }

    /// Returns whether the host is this machine by its loopback interface.
    pub fn is_loopback(self) -> bool {
        match self {
            Self::Localhost => true,
            Self::Address(address) => address.is_loopback(),
            Self::Name => false,
        }
    }

    /// Returns whether no entry in DNS can make the host lead to another machine (DNS rebinding).
    pub fn is_fixed(self) -> bool {
        self != Self::Name
    }
}

/// Splits an authority into host and port. An empty port is `None`; a port that is not a number
/// belongs to the host.
pub fn split_port(authority: &str) -> (&str, Option<u16>) {
    match authority.rsplit_once(':') {
        Some((host, "")) => (host, None),
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            match port.parse() {
                Ok(port) => (host, Some(port)),
                Err(_) => (authority, None),
            }
        }
        _ => (authority, None),
    }
}

/// Returns whether the name of a header field says that the request came through a proxy:
/// `Forwarded` (RFC 7239), any `X-Forwarded-…`, `Via` (RFC 9110, section 7.6.3).
pub fn is_forwarding_field(name: &str) -> bool {
    const PREFIX: &str = "x-forwarded-";
    let prefix = name.as_bytes().get(..PREFIX.len());
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX.as_bytes()))
        || name.eq_ignore_ascii_case("forwarded")
        || name.eq_ignore_ascii_case("via")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_localhost_are_this_machine() {
        for host in [
            "localhost",
            "LOCALHOST:8000",
            "rj.localhost",
            "127.0.0.1",
            "127.1.2.3:80",
            "127.0.0.1:",
            "[::1]",
            "[::1]:8000",
        ] {
            assert!(Host::of(host).is_loopback(), "{host}");
            assert!(Host::of(host).is_fixed(), "{host}");
        }
        for host in ["10.0.0.1:8000", "0.0.0.0", "[2001:db8::1]:80"] {
            assert!(!Host::of(host).is_loopback(), "{host}");
            assert!(Host::of(host).is_fixed(), "{host}");
        }
        for host in [
            "",
            ":8000",
            "example.com",
            "localhost.example.com:8000",
            "notlocalhost",
            "127.0.0.1.nip.io",
            "127.0.0.1:80:80",
            "127.0.0.1:65536",
            "::1",
            "[::1",
            "[127.0.0.1]",
            "[::1]x",
            "127.0.0.1:http",
        ] {
            assert!(!Host::of(host).is_loopback(), "{host}");
            assert!(!Host::of(host).is_fixed(), "{host}");
        }
    }

    #[test]
    fn a_port_is_a_number_after_the_last_colon() {
        assert_eq!(split_port("a:80"), ("a", Some(80)));
        assert_eq!(split_port("a:"), ("a", None));
        assert_eq!(split_port("a"), ("a", None));
        assert_eq!(split_port("[::1]:8000"), ("[::1]", Some(8000)));
        assert_eq!(split_port("[::1]"), ("[::1]", None));
        assert_eq!(split_port("a:99999"), ("a:99999", None));
    }

    #[test]
    fn fields_of_proxies_are_known_by_name() {
        for name in [
            "Via",
            "FORWARDED",
            "x-forwarded-for",
            "X-Forwarded-Anything",
        ] {
            assert!(is_forwarding_field(name), "{name}");
        }
        for name in [
            "X-Forwarded",
            "Vias",
            "Forwarded-For",
            "Host",
            "X-Forwarde-For",
            "é",
        ] {
            assert!(!is_forwarding_field(name), "{name}");
        }
    }
}
