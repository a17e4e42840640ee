//! A TCP connection, with or without TLS.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::tls::server_name;

/// A connection that carries HTTP: a socket, or TLS over one.
pub(crate) trait Stream: Read + Write + Debug + Send {}

impl<T: Read + Write + Debug + Send> Stream for T {}

/// Completes a TLS handshake with the server `host`. No read in it waits for longer than `timeout`.
pub(super) fn secure(
    socket: TcpStream,
    host: &str,
    config: &Arc<ClientConfig>,
    timeout: Duration,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let connection = ClientConnection::new(config.clone(), server_name(host)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut stream = StreamOwned::new(connection, socket);
    stream.sock.set_read_timeout(Some(timeout))?;
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    stream.sock.set_read_timeout(None)?;
    Ok(stream)
}
