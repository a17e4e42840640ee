//! WebSocket clients of the test world.

pub(super) use super::websocket_frames::{frame, messages_of, request};
use super::world::World;

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

/// The last message that a client was sent.
pub(super) fn last(world: &World, client: usize) -> String {
    messages(world, client).pop().expect("a message")
}
