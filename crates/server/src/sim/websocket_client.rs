//! WebSocket clients of the simulated network: a handshake, masked frames, and a reader of what the
//! server sends that shares nothing with its encoder.

use super::world::World;

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Opens a WebSocket.
pub(super) fn open(world: &mut World, target: &str) -> usize {
    open_with(world, target, "", usize::MAX)
}

/// Opens a WebSocket with further fields, on a socket that takes `room` bytes in all.
pub(super) fn open_with(world: &mut World, target: &str, fields: &str, room: usize) -> usize {
    let client = world.connect_with(request(target, fields).as_bytes(), room, usize::MAX);
    world.turn();
    client
}

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

/// Sends a text message, and lets the worker act on it.
pub(super) fn say(world: &mut World, client: usize, text: &str) {
    world.say(client, &frame(0x81, text.as_bytes()));
    world.run_until_idle();
}

/// What a client was sent after the handshake: texts as they are, control frames by name.
pub(super) fn messages(world: &World, client: usize) -> Vec<String> {
    let bytes = world.bytes(client);
    let messages = messages_of(&bytes);
    messages.unwrap_or_else(|| panic!("no handshake: {}", bytes.escape_ascii()))
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

/// The last message that a client was sent.
pub(super) fn last(world: &World, client: usize) -> String {
    messages(world, client).pop().expect("a message")
}
