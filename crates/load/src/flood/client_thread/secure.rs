//! TLS of the clients of a thread, and the only place where bytes are sent to a socket.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::ClientThread;
use super::opening::errno_of;
use crate::flood::failure_kind::FailureKind;
use crate::flood::stream::Stream;
use client::tls::{self, Session};

/// Sessions of the clients whose server has TLS. Empty where none has.
#[derive(Debug, Default)]
pub(super) struct Secure {
    /// By index of the client; as long as the largest index that needed one.
    sessions: Vec<Option<Session>>,
    /// First messages of handshakes that are sent a byte at a time.
    trickled: HashMap<usize, Vec<u8>>,
    plaintext: Vec<u8>,
}

impl Secure {
    fn session(&mut self, index: usize) -> Option<&mut Session> {
        self.sessions.get_mut(index)?.as_mut()
    }

    /// Forgets the session of a client whose connection has ended.
    pub(super) fn forget(&mut self, index: usize) {
        if let Some(session) = self.sessions.get_mut(index) {
            *session = None;
            self.trickled.remove(&index);
        }
    }
}

/// A socket that takes bytes without waiting, and without a signal if its peer has gone.
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
    /// Makes the session of a client that is about to connect, if its server has TLS. The request,
    /// which has been written, is queued in it.
    pub(super) fn secure(&mut self, index: usize) -> Result<(), Errno> {
        let (ordinal, moves) = self.place(index);
        let Some(client) = self.config.targets.tls_of(ordinal, moves) else {
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

    /// Sends the request, or the first message of the handshake before it.
    pub(super) fn send_request(&mut self, index: usize, socket: &OwnedFd) -> Result<(), Errno> {
        match self.secure.session(index) {
            Some(session) => session.send(&mut Outgoing(socket)).map_err(errno_of),
            None => send(socket, &self.request, SendFlags::NOSIGNAL).map(drop),
        }
    }

    /// Sends a few bytes on an open stream. Losing them is the peer's loss: a peer that takes
    /// nothing will be found to have gone.
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

    /// Says that the client will send no more, where its protocol has a word for that.
    pub(super) fn take_leave(&mut self, index: usize) {
        if let (Stream::Body(socket, _), Some(session)) =
            (&self.streams[index], self.secure.session(index))
        {
            session.close();
            let _ = session.send(&mut Outgoing(socket));
        }
    }

    /// What a client sends a byte at a time: its request, or the first message of its handshake.
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

    /// Hands on what came from a socket, opened if the client has TLS.
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
        // The stream may have ended with its last bytes, and its session with it.
        if self.secure.session(index).is_none() {
            return;
        }
        match (received, sent) {
            (Err(error), _) => self.on_tls_error(index, &error),
            (Ok(true), _) => self.on_end(index),
            // A socket whose peer does not read: the rest is sent when something comes.
            (Ok(false), Ok(()) | Err(Errno::AGAIN)) => {}
            (Ok(false), Err(errno)) => self.on_error(index, errno),
        }
    }

    fn on_tls_error(&mut self, index: usize, error: &tls::Error) {
        let (ordinal, moves) = self.place(index);
        let authority = self.config.targets.authority_of(ordinal, moves);
        let detail = tls::explain(authority, error);
        self.on_broken(index, FailureKind::Tls, &detail);
    }
}
