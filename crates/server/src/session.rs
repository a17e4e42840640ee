//! Sessions: requests to answers or streams.

/// Paths.
mod route;
/// The two ways in which a client reads its events.
mod reading;
/// What a request asks of its stream.
mod stream_request;
/// Connections beyond a limit.
mod refused;
/// Login.
mod login;
/// Logout.
mod logout;
/// Polls.
mod polling;
/// Ends of streams.
mod last_word;
/// Changes to a live session.
mod follow;
/// Keys of sessions with several ids.
mod several;
/// Events that clients publish.
mod publish;
/// Logins that a program outside decides on.
mod checked;
/// What an observer is told.
mod observed;
/// Entries of the access log.
mod accessed;
/// WebSocket sessions: handshakes, and what their clients say.
mod websocket;
/// Long polling.
mod poll;
/// What is kept of sessions.
mod sessions;
/// Requests to answers or streams.
mod requests;

pub(crate) use checked::Checked;
pub(crate) use follow::CommandError;
pub(crate) use last_word::{LastWord, Leaving, end_stream};
pub(crate) use poll::{Polls, Wake};
pub(crate) use requests::Requests;
pub(crate) use sessions::Sessions;
pub(crate) use websocket::{WebSockets, subscribe_checked};
