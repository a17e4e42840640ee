//! Encoding and decoding of messages to and from epmd, the port mapper of Erlang.

use crate::node_name::NodeName;

/// The default port of epmd.
pub const PORT: u16 = 4369;

/// The newest and the oldest supported version of the handshake.
const VERSIONS: [u16; 2] = [6, 5];

const ALIVE2_REQUEST: u8 = 120;
const ALIVE2_RESPONSE: u8 = 121;
const ALIVE2_X_RESPONSE: u8 = 118;
const PORT2_REQUEST: u8 = 122;
const PORT2_RESPONSE: u8 = 119;
const TYPE_HIDDEN: u8 = 72;
const PROTOCOL_TCP: u8 = 0;

/// The answer to a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// Registered for as long as the connection lasts. The creation distinguishes this run of the
    /// node from earlier ones.
    Done {
        /// Creation; never zero.
        creation: u32,
    },
    /// Another node has the name.
    NameTaken,
}

/// Where a node listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The port on the node's host.
    pub port: u16,
    /// The newest version of the handshake that the node supports.
    pub highest_version: u16,
}

/// The error for a malformed answer of epmd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Builds a request to register a hidden node that listens at `port`.
pub fn register(name: &NodeName, port: u16) -> Vec<u8> {
    let mut request = vec![ALIVE2_REQUEST];
    request.extend(port.to_be_bytes());
    request.extend([TYPE_HIDDEN, PROTOCOL_TCP]);
    for version in VERSIONS {
        request.extend(version.to_be_bytes());
    }
    request.extend((name.alive().len() as u16).to_be_bytes());
    request.extend(name.alive().as_bytes());
    request.extend([0, 0]);
    with_size(&request)
}

/// Reads the answer to [`register`]; `None` while it is incomplete.
///
/// # Errors
///
/// When the answer is malformed.
pub fn read_registration(answer: &[u8]) -> Result<Option<Registration>, Malformed> {
    let creation = match *answer {
        [] | [ALIVE2_RESPONSE | ALIVE2_X_RESPONSE] => return Ok(None),
        [ALIVE2_RESPONSE | ALIVE2_X_RESPONSE, result, ..] if result != 0 => {
            return Ok(Some(Registration::NameTaken));
        }
        [ALIVE2_X_RESPONSE, _, a, b, c, d, ..] => u32::from_be_bytes([a, b, c, d]),
        [ALIVE2_RESPONSE, _, a, b, ..] => u16::from_be_bytes([a, b]).into(),
        [ALIVE2_RESPONSE | ALIVE2_X_RESPONSE, ..] => return Ok(None),
        _ => return Err(Malformed),
    };
    Ok(Some(Registration::Done {
        creation: creation.max(1),
    }))
}

/// Builds a request for the port of a node.
pub fn look_up(name: &NodeName) -> Vec<u8> {
    let mut request = vec![PORT2_REQUEST];
    request.extend(name.alive().as_bytes());
    with_size(&request)
}

/// Reads the whole answer to [`look_up`]; `None` if epmd has no such node.
///
/// # Errors
///
/// When the answer is malformed.
pub fn read_look_up(answer: &[u8]) -> Result<Option<Endpoint>, Malformed> {
    match *answer {
        [PORT2_RESPONSE, result, ..] if result != 0 => Ok(None),
        [PORT2_RESPONSE, _, a, b, _, PROTOCOL_TCP, high, low, ..] => Ok(Some(Endpoint {
            port: u16::from_be_bytes([a, b]),
            highest_version: u16::from_be_bytes([high, low]),
        })),
        _ => Err(Malformed),
    }
}

fn with_size(request: &[u8]) -> Vec<u8> {
    let mut message = (request.len() as u16).to_be_bytes().to_vec();
    message.extend(request);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> NodeName {
        "encke@127.0.0.1".parse().expect("a name")
    }

    #[test]
    fn a_registration_has_the_format_of_epmd() {
        let expected = b"\x00\x12\x78\x1f\x40\x48\x00\x00\x06\x00\x05\x00\x05encke\x00\x00";
        assert_eq!(register(&name(), 8000), expected);
        assert_eq!(look_up(&name()), b"\x00\x06\x7aencke");
    }

    #[test]
    fn answers_are_read_at_every_split() {
        let done = |creation| Ok(Some(Registration::Done { creation }));
        for (answer, read) in [
            (&[118, 0, 1, 2, 3, 4][..], done(0x0102_0304)),
            (&[121, 0, 0, 3], done(3)),
            (&[121, 0, 0, 0], done(1)),
        ] {
            for end in 0..answer.len() {
                assert_eq!(read_registration(&answer[..end]), Ok(None), "{end} bytes");
            }
            assert_eq!(read_registration(answer), read);
        }
        assert_eq!(
            read_registration(&[118, 1]),
            Ok(Some(Registration::NameTaken))
        );
        assert_eq!(read_registration(b"HTTP"), Err(Malformed));
    }

    #[test]
    fn an_incomplete_endpoint_is_malformed() {
        let answer = b"\x77\x00\x1f\x40\x4d\x00\x00\x06\x00\x05\x00\x01a\x00\x00";
        let found = Endpoint {
            port: 8000,
            highest_version: 6,
        };
        assert_eq!(read_look_up(answer), Ok(Some(found)));
        assert_eq!(read_look_up(b"\x77\x01"), Ok(None));
        for end in 0..8 {
            assert_eq!(read_look_up(&answer[..end]), Err(Malformed), "{end} bytes");
        }
    }
}
