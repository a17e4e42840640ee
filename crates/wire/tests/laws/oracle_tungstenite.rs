//! What tungstenite reads of the same bytes.

use std::io::{self, Read, Write};

use tungstenite::protocol::{Role, WebSocket, WebSocketConfig};
use tungstenite::{Error, Message};

/// A stream that has these bytes to read, then none yet; and takes all that is written.
struct Stream<'a>(&'a [u8]);

impl Read for Stream<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self.0.read(space)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the messages of a client's bytes, and whether an error followed.
pub(crate) fn server_reads(input: &[u8], message_bytes: usize) -> (Vec<String>, bool) {
    reads(input, Role::Server, message_bytes)
}

/// Returns the messages of a server's bytes, and whether an error followed.
pub(crate) fn client_reads(input: &[u8]) -> (Vec<String>, bool) {
    reads(input, Role::Client, 1 << 20)
}

fn reads(input: &[u8], role: Role, message_bytes: usize) -> (Vec<String>, bool) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(message_bytes))
        .max_frame_size(Some(message_bytes));
    let mut socket = WebSocket::from_raw_socket(Stream(input), role, Some(config));
    let mut messages = Vec::new();
    loop {
        messages.push(match socket.read() {
            Ok(Message::Text(text)) => format!("text {text}"),
            Ok(Message::Binary(bytes)) => format!("binary {}", bytes.escape_ascii()),
            Ok(Message::Ping(bytes)) => format!("ping {}", bytes.escape_ascii()),
            Ok(Message::Pong(bytes)) => format!("pong {}", bytes.escape_ascii()),
            Ok(Message::Close(None)) => "close".to_owned(),
            Ok(Message::Close(Some(close))) => {
                format!("close {} {}", u16::from(close.code), close.reason)
            }
            Ok(Message::Frame(frame)) => panic!("a message is never a frame: {frame}"),
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                return (messages, false);
            }
            Err(Error::ConnectionClosed) => return (messages, false),
            Err(_) => return (messages, true),
        });
    }
}
