//! TLS sessions of a thread's clients, and the only position that sends bytes to a socket.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::ClientThread;
use crate::flood::failure_kind::FailureKind;
use crate::flood::stream::Stream;
use client::tls::{self, Session};

/// TLS sessions of the clients. Empty if no server uses TLS.
#[derive(Debug, Default)]
pub(super) struct Secure {
    /// Indexed by client; its length is the largest index with a session, plus one.
    sessions: Vec<Option<Session>>,
    /// First handshake messages that are being sent a byte at a time.
    trickled: HashMap<usize, Vec<u8>>,
    plaintext: Vec<u8>,
}

impl Secure {
    fn session(&mut self, index: usize) -> Option<&mut Session> {
        self.sessions.get_mut(index)?.as_mut()
    }

    /// Drops the session of a client whose connection has ended.
    pub(super) fn forget(&mut self, index: usize) {
        if let Some(session) = self.sessions.get_mut(index) {
            *session = None;
            self.trickled.remove(&index);
        }
    }
}

/// Writer to a socket that never raises SIGPIPE.
struct Outgoing<'a>(&'a OwnedFd);

impl Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ClientThread<'_> {
    /// Creates the TLS session of a client that is about to connect, if its server uses TLS, and
    /// queues the request in it.
    pub(super) fn secure(&mut self, index: usize) -> Result<(), Errno> {
        let server = self.config.targets.server_of(self.position(index));
        let Some(client) = &server.tls else {
            return Ok(());
        };
        let mut session = client.session().map_err(|_| Errno::IO)?;
        session.queue(&self.request);
        let sessions = &mut self.secure.sessions;
        if sessions.len() <= index {
            sessions.resize_with(index + 1, || None);
        }
        sessions[index] = Some(session);
        Ok(())
    }

    /// Sends the request, or with TLS the first message of the handshake.
    pub(super) fn send_request(&mut self, index: usize, socket: &OwnedFd) -> Result<(), Errno> {
        match self.secure.session(index) {
            Some(session) => session.send(&mut Outgoing(socket)).map_err(errno_of),
            None => send(socket, &self.request, SendFlags::NOSIGNAL).map(drop),
        }
    }

    /// Sends a few bytes on an open stream. They are dropped if the socket is full: the stream will
    /// soon fail anyway.
    pub(super) fn send_answer(&mut self, index: usize, bytes: &[u8]) {
        let Stream::Body(socket, _) = &self.streams[index] else {
            return;
        };
        match self.secure.session(index) {
            Some(session) => {
                session.queue(bytes);
                let _ = session.send(&mut Outgoing(socket));
            }
            None => drop(send(socket, bytes, SendFlags::NOSIGNAL)),
        }
    }

    /// Sends the TLS close_notify alert, if the client uses TLS.
    pub(super) fn send_close_notify(&mut self, index: usize) {
        if let (Stream::Body(socket, _), Some(session)) =
            (&self.streams[index], self.secure.session(index))
        {
            session.close();
            let _ = session.send(&mut Outgoing(socket));
        }
    }

    /// Writes what a trickling client sends: its request, or with TLS the first message of its
    /// handshake.
    pub(super) fn write_trickled(&mut self, index: usize) {
        self.write_request(index);
        let Some(session) = self.secure.session(index) else {
            return;
        };
        let mut first = Vec::new();
        let _ = session.send(&mut first);
        let kept = self.secure.trickled.entry(index).or_insert(first);
        self.request.clone_from(kept);
    }

    /// Passes received bytes on, decrypted if the client uses TLS.
    pub(super) fn on_received(&mut self, index: usize, bytes: &[u8]) {
        let mut plaintext = std::mem::take(&mut self.secure.plaintext);
        plaintext.clear();
        let Some(session) = self.secure.session(index) else {
            return self.on_bytes(index, bytes);
        };
        let was_handshaking = session.is_handshaking();
        let received = session.receive(bytes, &mut plaintext);
        if was_handshaking && !session.is_handshaking() {
            self.reading.counts.handshakes += 1;
            self.reading.counts.resumed += u64::from(session.is_resumed());
        }
        let mut sent = Ok(());
        if session.wants_send()
            && let Stream::Head(socket, _) | Stream::Body(socket, _) = &self.streams[index]
        {
            sent = session.send(&mut Outgoing(socket)).map_err(errno_of);
        }
        if !plaintext.is_empty() {
            self.on_bytes(index, &plaintext);
        }
        self.secure.plaintext = plaintext;
        // These bytes may have ended the stream, and its session with it.
        if self.secure.session(index).is_none() {
            return;
        }
        match (received, sent) {
            (Err(error), _) => self.on_tls_error(index, &error),
            (Ok(true), _) => self.on_end(index),
            // The socket is full: the rest is sent after the next read.
            (Ok(false), Ok(()) | Err(Errno::AGAIN)) => {}
            (Ok(false), Err(errno)) => self.on_error(index, errno),
        }
    }

    fn on_tls_error(&mut self, index: usize, error: &tls::Error) {
        let server = self.config.targets.server_of(self.position(index));
        let detail = tls::explain(server.url.authority(), error);
        self.on_broken(index, FailureKind::Tls, &detail);
    }
}

/// Returns the error number of a failed call.
pub(super) fn errno_of(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
