//! WebSocket sessions: what their clients say, and what is kept of it.
//!
//! Owns the handshake's checks, the limits on clients that talk, and messages that have not arrived
//! whole. An idle session has no entry in any table here. Must never change what a session follows:
//! that is the session stage's.

/// The opening handshake, and the origins whose pages may make it.
mod opening;
/// Messages of clients to commands.
mod command;
/// Frames of clients to messages, and their answers.
mod input;
/// What is kept of sessions.
mod sockets;

pub(crate) use command::Publication;
pub(crate) use input::{notify, receive, refuse, subscribe_checked};
pub(crate) use opening::check_opening;
pub(crate) use sockets::WebSockets;
