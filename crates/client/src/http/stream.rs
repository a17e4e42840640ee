//! A TCP connection, with or without TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::tls::server_name;

/// A TCP connection that carries HTTP, with or without TLS.
#[derive(Debug)]
pub(crate) enum Stream {
    /// The socket itself.
    Plain(TcpStream),
    /// TLS over the socket. Boxed: its state is larger than a kilobyte.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Completes a TLS handshake with the server `host`. No read in it waits for longer than
    /// `timeout`.
    pub(super) fn secure(
        socket: TcpStream,
        host: &str,
        config: &Arc<ClientConfig>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let connection = ClientConnection::new(config.clone(), server_name(host)?)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut stream = StreamOwned::new(connection, socket);
        stream.sock.set_read_timeout(Some(timeout))?;
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        stream.sock.set_read_timeout(None)?;
        Ok(Self::Tls(Box::new(stream)))
    }

    /// Returns the socket.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(out),
            Self::Tls(stream) => stream.read(out),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
