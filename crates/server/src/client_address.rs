//! Address of a client behind trusted proxies: for limits by address, for reports, and to know
//! whose word counts.
//!
//! Owns which of the addresses of a connection and in a request counts. Must never be used as a
//! proof of identity.

use std::net::{IpAddr, SocketAddr};

use auth::Policy;
use wire::forwarded::{self, Hop};
use wire::head::Request;

/// Origin of the bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The peer.
    Peer(SocketAddr),
    /// A client that the peer, a trusted proxy, has named in a PROXY header.
    Proxied(SocketAddr),
    /// A client that the peer, a trusted proxy, has not named in its PROXY header. The address is
    /// that of the peer.
    Hidden(SocketAddr),
}

impl Origin {
    /// Returns the address that limits and reports use.
    pub(crate) const fn address(self) -> SocketAddr {
        let (Self::Peer(address) | Self::Proxied(address) | Self::Hidden(address)) = self;
        address
    }

    /// Returns whether the fields of requests are those of a trusted proxy. A proxy that sends
    /// PROXY headers passes on the bytes of strangers: that it is trusted itself says nothing about
    /// the fields in them.
    pub(crate) fn is_trusted(self, policy: &Policy) -> bool {
        match self {
            Self::Peer(address) | Self::Proxied(address) => policy.trusts(address.ip()),
            Self::Hidden(_) => false,
        }
    }
}

/// Returns the address of the client that a request comes from, on a connection with this origin.
///
/// The fields count only if the origin is a trusted proxy. Proxies append addresses, so the last
/// one that is not of a trusted proxy was appended by one: any before it may be invented. A client
/// may also send the field that its proxy does not use. So if the two fields differ, or the address
/// is hidden, the connection counts as the proxy's own: such a client gains nothing.
pub(crate) fn of_request(policy: &Policy, request: &Request<'_>, origin: Origin) -> IpAddr {
    let own = origin.address().ip();
    if !origin.is_trusted(policy) {
        return own;
    }
    let usual = field(policy, request, "x-forwarded-for", |value| {
        forwarded::x_forwarded_for(value).collect()
    });
    let standard = field(policy, request, "forwarded", |value| {
        forwarded::forwarded(value).collect()
    });
    let found = match (usual, standard) {
        (None, address) | (address, None) => address,
        (Some(usual), Some(standard)) => Some(if usual == standard { usual } else { None }),
    };
    found.flatten().unwrap_or(own)
}

/// Returns what a field says: `None` if there is none, and `Some(None)` if it hides the address.
fn field(
    policy: &Policy,
    request: &Request<'_>,
    name: &str,
    hops: impl Fn(&str) -> Vec<Hop>,
) -> Option<Option<IpAddr>> {
    let lines: Vec<_> = request.values(name).collect();
    if lines.is_empty() {
        return None;
    }
    for line in lines.into_iter().rev() {
        for hop in hops(line.unwrap_or_default()) {
            match hop {
                Hop::Address(address) if policy.trusts(address) => {}
                Hop::Address(address) => return Some(Some(address)),
                Hop::Hidden => return Some(None),
            }
        }
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use auth::PolicySettings;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn found(peer: &str, fields: &[&str]) -> IpAddr {
        found_from(Origin::Peer, peer, fields)
    }

    fn found_from(origin: fn(SocketAddr) -> Origin, from: &str, fields: &[&str]) -> IpAddr {
        let policy = Policy::new(PolicySettings {
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()],
            ..PolicySettings::default()
        });
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let request = wire::head::parse(head.as_bytes()).unwrap().unwrap();
        of_request(&policy, &request, origin(SocketAddr::new(address(from), 1)))
    }

    #[test]
    fn the_last_address_that_no_trusted_proxy_has_counts() {
        for (fields, client) in [
            (&["X-Forwarded-For: 192.0.2.1"][..], "192.0.2.1"),
            (&["X-Forwarded-For: 192.0.2.9, 192.0.2.1"], "192.0.2.1"),
            (
                &["X-Forwarded-For: 192.0.2.1, 10.0.0.2, 10.0.0.3"],
                "192.0.2.1",
            ),
            (
                &["X-Forwarded-For: 192.0.2.9", "X-Forwarded-For: 192.0.2.1"],
                "192.0.2.1",
            ),
            (
                &["Forwarded: for=192.0.2.9, for=192.0.2.1;proto=https"],
                "192.0.2.1",
            ),
            (&["Forwarded: for=\"[2001:db8::1]:80\""], "2001:db8::1"),
            (
                &["X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1"],
                "192.0.2.1",
            ),
        ] {
            assert_eq!(found("10.0.0.1", fields), address(client), "{fields:?}");
        }
    }

    #[test]
    fn behind_a_proxy_header_the_fields_count_as_those_of_the_client_that_it_names() {
        let fields = ["X-Forwarded-For: 192.0.2.1"];
        for (origin, from, client) in [
            (Origin::Proxied as fn(_) -> _, "10.0.0.2", "192.0.2.1"),
            (Origin::Proxied, "192.0.2.9", "192.0.2.9"),
            (Origin::Hidden, "10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(found_from(origin, from, &fields), address(client), "{from}");
        }
    }

    #[test]
    fn a_client_cannot_choose_its_address() {
        // Not a proxy.
        assert_eq!(
            found("192.0.2.1", &["X-Forwarded-For: 192.0.2.9"]),
            address("192.0.2.1")
        );
        // The field that its proxy does not use, and fields that hide the address.
        for fields in [
            &["X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.9"][..],
            &["X-Forwarded-For: 192.0.2.1", "Forwarded: for=unknown"],
            &["Forwarded: for=_hidden"],
            &["X-Forwarded-For: 192.0.2.9, unknown"],
            &["X-Forwarded-For: 10.0.0.2"],
            &["X-Forwarded-For:"],
            &[],
        ] {
            assert_eq!(found("10.0.0.1", fields), address("10.0.0.1"), "{fields:?}");
        }
    }
}
