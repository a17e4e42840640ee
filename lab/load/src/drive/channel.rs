//! Socket of a connection, with TLS if the server uses it. Callers read and write plaintext.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::io::Errno;
use socket2::{Domain, Socket, Type};

use client::tls::{self, Session, TlsClient};

/// Most plaintext encrypted at a time: one TLS record.
const RECORD_BYTES: usize = 16 * 1024;

/// Non-blocking socket, owned by its connection.
#[derive(Debug)]
pub(super) struct Channel {
    stream: TcpStream,
    tls: Option<Tls>,
}

#[derive(Debug)]
struct Tls {
    session: Session,
    /// Plaintext of the last read.
    plaintext: Vec<u8>,
}

/// Result of a read.
#[derive(Debug)]
pub(super) enum Received<'a> {
    /// Plaintext, and whether more may be available.
    Bytes(&'a [u8], bool),
    /// Nothing to read now.
    Blocked,
    /// The server closed or reset the connection.
    Ended,
    /// The server does not speak TLS, or its certificate is not trusted.
    Refused(tls::Error),
}

impl Channel {
    /// Begins to connect to `server`.
    ///
    /// # Errors
    ///
    /// Returns errors of the socket.
    pub(super) fn connect(server: SocketAddr, tls: Option<&TlsClient>) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(server),
            Type::STREAM.nonblocking(),
            None,
        )?;
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&server.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        let session = tls.map(TlsClient::session).transpose();
        let session = session.map_err(io::Error::other)?;
        Ok(Self {
            stream: socket.into(),
            tls: session.map(|session| Tls {
                session,
                plaintext: Vec::new(),
            }),
        })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether plaintext has to wait for a handshake.
    pub(super) fn is_handshaking(&self) -> bool {
        let tls = self.tls.as_ref();
        tls.is_some_and(|tls| tls.session.is_handshaking())
    }

    /// Whether the TLS session has bytes to send.
    pub(super) fn wants_send(&self) -> bool {
        let tls = self.tls.as_ref();
        tls.is_some_and(|tls| tls.session.wants_send())
    }

    /// Writes plaintext; returns how many bytes were taken.
    ///
    /// # Errors
    ///
    /// Returns `WouldBlock` while the socket is full or the handshake is not done; other errors of
    /// the socket.
    pub(super) fn write(&mut self, plaintext: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.stream.write(plaintext);
        };
        // Send the record before first, so that the session never buffers two.
        tls.session.send(&mut self.stream)?;
        if tls.session.is_handshaking() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let record = &plaintext[..plaintext.len().min(RECORD_BYTES)];
        tls.session.queue(record);
        match tls.session.send(&mut self.stream) {
            Err(error) if !is_blocked(&error) => Err(error),
            _ => Ok(record.len()),
        }
    }

    /// Sends the bytes of the TLS session. If the socket is full, they stay in the session.
    ///
    /// # Errors
    ///
    /// Returns errors of the socket.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        match tls.session.send(&mut self.stream) {
            Err(error) if !is_blocked(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads from the socket. `block` is the read buffer; without TLS the plaintext is in it.
    pub(super) fn read<'a>(&'a mut self, block: &'a mut [u8]) -> Received<'a> {
        let count = loop {
            match self.stream.read(block) {
                Ok(0) => return Received::Ended,
                Ok(count) => break count,
                Err(error) if is_blocked(&error) => return Received::Blocked,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Received::Ended,
            }
        };
        let has_more = count == block.len();
        let Some(tls) = &mut self.tls else {
            return Received::Bytes(&block[..count], has_more);
        };
        tls.plaintext.clear();
        match tls.session.receive(&block[..count], &mut tls.plaintext) {
            Err(error) => {
                // Send the alert if possible; the connection ends either way.
                let _ = tls.session.send(&mut self.stream);
                Received::Refused(error)
            }
            Ok(true) if tls.plaintext.is_empty() => Received::Ended,
            // If the session has ended, the next read finds the end of the connection.
            Ok(_) => Received::Bytes(&tls.plaintext, has_more),
        }
    }
}

fn is_blocked(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
