//! Addresses of clients that proxies report: `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//!
//! Each proxy appends the address of its own client, so the last entry is the only one that the
//! nearest proxy vouches for, and any entry before it may be invented. Must never decide which
//! proxies are trusted.

use std::net::IpAddr;

use crate::host::Host;

/// Entry that a proxy appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// An IP address.
    Address(IpAddr),
    /// A name that hides the address (RFC 7239, section 6.3), or text that is no address.
    Hidden,
}

/// Returns the entries of an `X-Forwarded-For` field, the last one first.
pub fn x_forwarded_for(field: &str) -> impl Iterator<Item = Hop> {
    field.rsplit(',').map(|entry| hop(entry.trim()))
}

/// Returns the entries of a `Forwarded` field, the last one first. An element without `for` hides
/// the address.
///
/// ```
/// use wire::forwarded::{Hop, forwarded};
///
/// let field = "for=192.0.2.60;proto=http, for=\"[2001:db8::17]:4711\", for=_hidden";
/// let hops: Vec<_> = forwarded(field).collect();
/// assert_eq!(hops[0], Hop::Hidden);
/// assert_eq!(hops[1], Hop::Address("2001:db8::17".parse().unwrap()));
/// assert_eq!(hops[2], Hop::Address("192.0.2.60".parse().unwrap()));
/// ```
pub fn forwarded(field: &str) -> impl Iterator<Item = Hop> {
    let elements = split_unquoted(field, b',');
    elements.into_iter().rev().map(|element| {
        let pairs = split_unquoted(element, b';');
        let mut addresses = pairs.into_iter().filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("for")
                .then(|| value.trim())
        });
        // A parameter may occur once in an element (section 4).
        match (addresses.next(), addresses.next()) {
            (Some(value), None) => hop(unquoted(value)),
            _ => Hop::Hidden,
        }
    })
}

/// Returns an address with or without a port; an IPv6 address may stand in brackets.
fn hop(entry: &str) -> Hop {
    let address = match entry.parse() {
        Ok(address) => Some(address),
        Err(_) => match Host::of(entry) {
            Host::Address(address) => Some(address),
            Host::Localhost | Host::Name => None,
        },
    };
    address.map_or(Hop::Hidden, |address: IpAddr| {
        Hop::Address(address.to_canonical())
    })
}

/// Returns a value without the quotation marks around it, if it has both.
pub(crate) fn unquoted(value: &str) -> &str {
    let inner = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    inner.unwrap_or(value)
}

/// Splits at `separator` outside of quoted strings (RFC 9110, section 5.6.4).
fn split_unquoted(text: &str, separator: u8) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if byte == separator && !is_quoted => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Hop {
        Hop::Address(text.parse().unwrap())
    }

    #[test]
    fn entries_of_x_forwarded_for_are_read_from_the_last_to_the_first() {
        let hops: Vec<_> =
            x_forwarded_for("10.0.0.1, unknown,2001:db8::1 , 192.0.2.7:80").collect();
        let expected = [
            address("192.0.2.7"),
            address("2001:db8::1"),
            Hop::Hidden,
            address("10.0.0.1"),
        ];
        assert_eq!(hops, expected);
        assert_eq!(x_forwarded_for("").collect::<Vec<_>>(), [Hop::Hidden]);
        let bracketed = x_forwarded_for("[2001:db8::1]:80").next();
        assert_eq!(bracketed, Some(address("2001:db8::1")));
    }

    #[test]
    fn a_mapped_address_is_the_address_that_it_maps() {
        assert_eq!(
            x_forwarded_for("::ffff:192.0.2.1").next(),
            Some(address("192.0.2.1"))
        );
    }

    #[test]
    fn elements_of_forwarded_are_read_whatever_their_order_and_quotes() {
        let last = |field: &str| forwarded(field).next().unwrap();
        assert_eq!(last("for=192.0.2.1"), address("192.0.2.1"));
        assert_eq!(
            last("proto=https;For=\"192.0.2.1:99\";by=x"),
            address("192.0.2.1")
        );
        assert_eq!(last("for=\"[::1]\""), address("::1"));
        // A comma in quotes separates nothing: the client cannot append an element of its own.
        assert_eq!(last("host=\"a, for=10.0.0.1\""), Hop::Hidden);
        assert_eq!(last("host=\"a\\\", for=10.0.0.1\""), Hop::Hidden);
        assert_eq!(last("for=192.0.2.1;for=10.0.0.1"), Hop::Hidden);
        assert_eq!(last("for=unknown"), Hop::Hidden);
        assert_eq!(last(""), Hop::Hidden);
    }
}
