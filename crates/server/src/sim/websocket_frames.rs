//! WebSocket as its clients speak it: a handshake, masked frames, and a reader of what the server
//! sends that shares nothing with its encoder.

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// The request for a WebSocket.
pub(super) fn request(target: &str, fields: &str) -> String {
    format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{fields}\r\n"
    )
}

/// A frame of a client, whose first byte is `first`.
pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | length as u8),
        length => {
            bytes.push(0x80 | 126);
            bytes.extend((length as u16).to_be_bytes());
        }
    }
    bytes.extend(MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(a, b)| a ^ b));
    bytes
}

/// The messages among the bytes of a connection, as far as they are whole; `None` without a
/// handshake.
pub(super) fn messages_of(bytes: &[u8]) -> Option<Vec<String>> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let head = head.filter(|_| bytes.starts_with(b"HTTP/1.1 101 "))?;
    let mut rest = &bytes[head + 4..];
    let mut messages = Vec::new();
    while let [first, short, after @ ..] = rest {
        let (length, after) = match (short, after) {
            (126, [high, low, after @ ..]) => (usize::from(*high) << 8 | usize::from(*low), after),
            (126, _) => break,
            (127, _) => panic!("no message of these tests is so long"),
            (length, after) => (usize::from(*length), after),
        };
        let Some((payload, after)) = after.split_at_checked(length) else {
            break;
        };
        let text = String::from_utf8_lossy(payload);
        messages.push(match first {
            0x81 => text.into_owned(),
            0x89 => "ping".to_owned(),
            0x8a => format!("pong {text}"),
            0x88 if payload.is_empty() => "close".to_owned(),
            0x88 => {
                let code = u16::from_be_bytes([payload[0], payload[1]]);
                let reason = String::from_utf8_lossy(&payload[2..]);
                format!("close {code} {reason}").trim_end().to_owned()
            }
            other => panic!("a frame that begins with {other:#x}"),
        });
        rest = after;
    }
    Some(messages)
}
