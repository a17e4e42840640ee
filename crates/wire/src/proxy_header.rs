//! The PROXY protocol, versions 1 and 2 (haproxy.org, proxy-protocol.txt of 2020): a header in
//! which one proxy tells the next the address of the client.
//!
//! Bytes in, bytes out: no socket, no clock. A header is accepted or refused as early as its bytes
//! allow, and alike at every split.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The first bytes of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The first bytes of version 1.
const PREFIX: &[u8; 6] = b"PROXY ";

/// Bytes of a line of version 1, CRLF included (section 2.1).
const LINE_BYTES_MAX: usize = 107;

/// The longest header of version 2 that is accepted: addresses, and room for the names of
/// certificates.
pub const HEADER_BYTES_MAX: usize = 4096;

/// Bytes of version 2 before its addresses.
const FIXED_BYTES: usize = 16;

/// Content of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The client's address and the address it connected to; `None` when the other proxy connects
    /// on its own behalf, or does not know them.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
}

/// Reason why bytes are not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderError {
    /// They begin with neither version's signature.
    Signature,
    /// A line that is not of version 1, or too long.
    Line,
    /// A version that is not 2, or an unknown command.
    Command,
    /// Addresses shorter than their family.
    Addresses,
    /// More than [`HEADER_BYTES_MAX`].
    TooLong,
}

/// Parses the header at the start of `input`, and returns it with its length; `Ok(None)` if it has
/// not come whole.
///
/// # Errors
///
/// See [`HeaderError`].
///
/// ```
/// use wire::proxy_header::parse;
///
/// let input = b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\nGET /";
/// assert_eq!(parse(&input[..30]), Ok(None), "more bytes are needed");
/// let (header, length) = parse(input).unwrap().expect("a whole header");
/// assert_eq!(header.addresses.unwrap().0.to_string(), "192.0.2.1:56324");
/// assert_eq!(&input[length..], b"GET /");
/// ```
pub fn parse(input: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    let begins = |with: &[u8]| {
        let length = input.len().min(with.len());
        input[..length] == with[..length]
    };
    if begins(PREFIX) {
        return parse_line(input);
    }
    if begins(SIGNATURE) {
        return parse_binary(input);
    }
    Err(HeaderError::Signature)
}

fn parse_line(input: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    let window = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
        return match window.len() {
            LINE_BYTES_MAX => Err(HeaderError::Line),
            _ => Ok(None),
        };
    };
    let line = window[..end].strip_suffix(b"\r").ok_or(HeaderError::Line)?;
    let line = str::from_utf8(line).map_err(|_| HeaderError::Line)?;
    let mut words = line.split(' ').skip(1);
    let family = words.next();
    if family == Some("UNKNOWN") {
        // The rest of the line must be ignored (section 2.1).
        let addresses = None;
        return Ok(Some((Header { addresses }, end + 1)));
    }
    let rest: Vec<&str> = words.collect();
    let &[source, destination, source_port, destination_port] = rest.as_slice() else {
        return Err(HeaderError::Line);
    };
    let wants_v4 = match family {
        Some("TCP4") => true,
        Some("TCP6") => false,
        _ => return Err(HeaderError::Line),
    };
    let address = |ip: &str, port: &str| {
        let ip: IpAddr = ip.parse().map_err(|_| HeaderError::Line)?;
        if ip.is_ipv4() != wants_v4 {
            return Err(HeaderError::Line);
        }
        Ok(SocketAddr::new(ip, parse_port(port)?))
    };
    let source = address(source, source_port)?;
    let destination = address(destination, destination_port)?;
    let addresses = Some((source, destination));
    Ok(Some((Header { addresses }, end + 1)))
}

/// Digits without a sign or leading zeros, as the protocol has them.
fn parse_port(text: &str) -> Result<u16, HeaderError> {
    let plain = text == "0" || !text.starts_with(['0', '+']);
    let port = text.parse().ok().filter(|_| plain);
    port.ok_or(HeaderError::Line)
}

fn parse_binary(input: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    // Each byte is checked as soon as it is there, so that the result does not depend on the split.
    let local = match input.get(12) {
        None => return Ok(None),
        Some(0x20) => true,
        Some(0x21) => false,
        Some(_) => return Err(HeaderError::Command),
    };
    let Some(fixed) = input.get(..FIXED_BYTES) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let whole = FIXED_BYTES + length;
    if whole > HEADER_BYTES_MAX {
        return Err(HeaderError::TooLong);
    }
    let needed = match fixed[13] {
        _ if local => 0,
        0x11 => 12,
        0x21 => 36,
        _ => 0,
    };
    if length < needed {
        return Err(HeaderError::Addresses);
    }
    let Some(body) = input.get(FIXED_BYTES..whole) else {
        return Ok(None);
    };
    let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let addresses = match needed {
        12 => {
            let ip = |at: usize| Ipv4Addr::new(body[at], body[at + 1], body[at + 2], body[at + 3]);
            let source = SocketAddr::from((ip(0), port(8)));
            Some((source, SocketAddr::from((ip(4), port(10)))))
        }
        36 => {
            let ip = |at: usize| {
                let octets: [u8; 16] = body[at..at + 16].try_into().expect("sixteen bytes");
                Ipv6Addr::from(octets)
            };
            let source = SocketAddr::from((ip(0), port(32)));
            Some((source, SocketAddr::from((ip(16), port(34)))))
        }
        _ => None,
    };
    Ok(Some((Header { addresses }, whole)))
}

/// Appends a header of version 1.
pub fn write_v1(header: &Header, out: &mut Vec<u8>) {
    let line = match header.addresses.map(alike) {
        None => "PROXY UNKNOWN\r\n".to_owned(),
        Some((source, destination)) => format!(
            "PROXY {} {} {} {} {}\r\n",
            if source.is_ipv4() { "TCP4" } else { "TCP6" },
            source.ip(),
            destination.ip(),
            source.port(),
            destination.port()
        ),
    };
    out.extend_from_slice(line.as_bytes());
}

/// Appends a header of version 2.
pub fn write_v2(header: &Header, out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    match header.addresses.map(alike) {
        // LOCAL, no address.
        None => out.extend_from_slice(&[0x20, 0, 0, 0]),
        Some((SocketAddr::V4(source), SocketAddr::V4(destination))) => {
            out.extend_from_slice(&[0x21, 0x11, 0, 12]);
            out.extend_from_slice(&source.ip().octets());
            out.extend_from_slice(&destination.ip().octets());
            out.extend_from_slice(&source.port().to_be_bytes());
            out.extend_from_slice(&destination.port().to_be_bytes());
        }
        Some((source, destination)) => {
            out.extend_from_slice(&[0x21, 0x21, 0, 36]);
            out.extend_from_slice(&mapped(source.ip()).octets());
            out.extend_from_slice(&mapped(destination.ip()).octets());
            out.extend_from_slice(&source.port().to_be_bytes());
            out.extend_from_slice(&destination.port().to_be_bytes());
        }
    }
}

/// Two addresses of one family: a header has room for no other pair.
fn alike((source, destination): (SocketAddr, SocketAddr)) -> (SocketAddr, SocketAddr) {
    if source.is_ipv4() == destination.is_ipv4() {
        return (source, destination);
    }
    let map = |address: SocketAddr| SocketAddr::from((mapped(address.ip()), address.port()));
    (map(source), map(destination))
}

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signature => "it begins like neither version of the PROXY protocol",
            Self::Line => "its line is not of version 1",
            Self::Command => "its version or command is unknown",
            Self::Addresses => "its addresses are shorter than their family",
            Self::TooLong => "it is longer than 4096 bytes",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address() -> impl Strategy<Value = SocketAddr> {
        prop_oneof![
            any::<([u8; 4], u16)>().prop_map(SocketAddr::from),
            // A mapped address prints like itself; one that is compatible with IPv4 does not.
            any::<([u16; 8], u16)>().prop_map(SocketAddr::from),
        ]
    }

    fn header() -> impl Strategy<Value = Header> {
        let both = prop_oneof![
            any::<([u8; 4], u16, [u8; 4], u16)>()
                .prop_map(|(a, b, c, d)| (SocketAddr::from((a, b)), SocketAddr::from((c, d)))),
            any::<([u16; 8], u16, [u16; 8], u16)>()
                .prop_map(|(a, b, c, d)| (SocketAddr::from((a, b)), SocketAddr::from((c, d)))),
        ];
        prop::option::of(both).prop_map(|addresses| Header { addresses })
    }

    /// Returns the verdict when the bytes come one by one: the first that is final, and where it
    /// came.
    fn piecewise(bytes: &[u8]) -> (usize, Result<Option<(Header, usize)>, HeaderError>) {
        for end in 0..bytes.len() {
            match parse(&bytes[..end]) {
                Ok(None) => {}
                verdict => return (end, verdict),
            }
        }
        (bytes.len(), parse(bytes))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            header in header(),
            rest in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            for write in [write_v1, write_v2] {
                let mut bytes = Vec::new();
                write(&header, &mut bytes);
                let length = bytes.len();
                bytes.extend_from_slice(&rest);
                prop_assert_eq!(parse(&bytes), Ok(Some((header, length))));
                prop_assert_eq!(piecewise(&bytes), (length, Ok(Some((header, length)))));
            }
        }

        #[test]
        fn addresses_of_two_families_are_told_as_one(
            source in address(),
            destination in address(),
        ) {
            let header = Header { addresses: Some((source, destination)) };
            for write in [write_v1, write_v2] {
                let mut bytes = Vec::new();
                write(&header, &mut bytes);
                let (read, length) = parse(&bytes).expect("well-formed").expect("whole");
                prop_assert_eq!(length, bytes.len());
                prop_assert_eq!(read.addresses, Some(alike((source, destination))));
            }
        }

        #[test]
        fn the_verdict_is_the_same_at_every_split(
            start in prop_oneof![Just(&b""[..]), Just(&b"PROXY "[..]), Just(&b"PROXY TCP4 "[..]),
                Just(&b"\r\n\r\n\0\r\nQUIT\n"[..]), Just(&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0"[..])],
            rest in prop::collection::vec(
                prop_oneof![
                    any::<u8>(), Just(b' '), Just(b'1'), Just(b'.'), Just(b'\r'), Just(b'\n')
                ],
                0..150,
            ),
        ) {
            let mut bytes = start.to_vec();
            bytes.extend_from_slice(&rest);
            prop_assert_eq!(piecewise(&bytes).1, parse(&bytes));
        }
    }

    #[test]
    fn headers_of_other_programs_are_read() {
        let line = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET /";
        let source: SocketAddr = "192.168.0.1:56324".parse().expect("valid");
        let destination: SocketAddr = "192.168.0.11:443".parse().expect("valid");
        let addresses = Some((source, destination));
        assert_eq!(parse(line), Ok(Some((Header { addresses }, 47))));
        let unknown = b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n";
        let unknown_client = Header { addresses: None };
        assert_eq!(parse(unknown), Ok(Some((unknown_client, unknown.len()))));
        // Two TLVs behind the addresses.
        let mut binary = SIGNATURE.to_vec();
        binary.extend_from_slice(&[0x21, 0x11, 0, 19, 192, 168, 0, 1, 192, 168, 0, 11]);
        binary.extend_from_slice(&[0xdc, 0x04, 0x01, 0xbb, 0x04, 0, 0, 0x04, 0, 1, 7]);
        assert_eq!(parse(&binary), Ok(Some((Header { addresses }, 35))));
        // A unix socket's addresses are passed over.
        let mut unix = SIGNATURE.to_vec();
        unix.extend_from_slice(&[0x21, 0x31, 0, 216]);
        unix.extend_from_slice(&[0; 216]);
        assert_eq!(parse(&unix), Ok(Some((unknown_client, 232))));
    }

    #[test]
    fn what_is_no_header_is_refused_as_soon_as_that_is_known() {
        for (bytes, error, at) in [
            (&b"GET / HTTP/1.1\r\n"[..], HeaderError::Signature, 1),
            (b"PROXY TCP4 1.2.3.4\r\n", HeaderError::Line, 20),
            (b"PROXY TCP4 ::1 ::1 1 2\r\n", HeaderError::Line, 24),
            (
                b"PROXY TCP4 1.2.3.4 1.2.3.4 1 065\r\n",
                HeaderError::Line,
                34,
            ),
            (
                b"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
                HeaderError::Line,
                36,
            ),
            (b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n", HeaderError::Line, 32),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", HeaderError::Line, 31),
            (b"\r\n\r\n\0\r\nQUIT\n\x11", HeaderError::Command, 13),
            (
                b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0b",
                HeaderError::Addresses,
                16,
            ),
            (
                b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
                HeaderError::TooLong,
                16,
            ),
        ] {
            assert_eq!(piecewise(bytes), (at, Err(error)), "{bytes:?}");
        }
        let long = [&b"PROXY "[..], &[b'x'; 101]].concat();
        assert_eq!(piecewise(&long), (107, Err(HeaderError::Line)));
    }
}
