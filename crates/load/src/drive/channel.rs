//! The socket of a connection, with TLS where its server has it: plaintext in, plaintext out.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::io::Errno;
use socket2::{Domain, Socket, Type};

use client::tls::{self, Session, TlsClient};

/// Plaintext that is encrypted at a time: a record.
const RECORD_BYTES: usize = 16 * 1024;

/// A socket that never waits. Owned by its connection.
#[derive(Debug)]
pub(super) struct Channel {
    stream: TcpStream,
    tls: Option<Tls>,
}

#[derive(Debug)]
struct Tls {
    session: Session,
    /// Plaintext of one read.
    plaintext: Vec<u8>,
}

/// What was read.
#[derive(Debug)]
pub(super) enum Received<'a> {
    /// Plaintext, and whether there may be more.
    Bytes(&'a [u8], bool),
    /// Nothing more for now.
    Blocked,
    /// The server has ended the connection, or broken it.
    Ended,
    /// What came is not TLS, or the certificate is not trusted.
    Refused(tls::Error),
}

impl Channel {
    /// A channel to `server` that is connecting.
    ///
    /// # Errors
    ///
    /// Those of the socket.
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
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.session.is_handshaking())
    }

    /// Whether there are bytes for the socket besides the plaintext that is still to be written.
    pub(super) fn wants_send(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.session.wants_send())
    }

    /// Takes plaintext; how much of it.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while the socket or a handshake takes none, and other errors of the socket.
    pub(super) fn write(&mut self, plaintext: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.stream.write(plaintext);
        };
        // The buffer of the session is empty when it takes a record.
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

    /// Writes what the session has to say. A socket that takes nothing gets it later.
    ///
    /// # Errors
    ///
    /// Those of the socket.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => match tls.session.send(&mut self.stream) {
                Err(error) if !is_blocked(&error) => Err(error),
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Reads into `block`, which may be what the plaintext is given in.
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
                // The alert that says why; the connection ends either way.
                let _ = tls.session.send(&mut self.stream);
                Received::Refused(error)
            }
            Ok(true) if tls.plaintext.is_empty() => Received::Ended,
            // What follows the end of the session is the end of the connection.
            Ok(_) => Received::Bytes(&tls.plaintext, has_more),
        }
    }
}

fn is_blocked(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
