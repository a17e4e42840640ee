//! A connection on which hyper sees checked heads only, and which fails when its client does not
//! read.
//!
//! Hyper is lenient where two readers of one connection may differ: it takes the first of two
//! `Host`s, drops a second `Content-Length`, ends lines with LF. So bytes are held back until the
//! head that they belong to is whole and keeps the rules. In place of a refused head hyper gets
//! `REFUSED`, a request that the service answers with the reason, and then nothing. Must never
//! change a byte of a request that is accepted.
//!
//! Hyper has no time limit for a client that takes no byte of its answer: it would keep its
//! connection, and its place, for ever.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use wire::head::HeadError;

use super::framing::{Framing, Refusal};
use crate::limits::{LINGER_BYTES_MAX, LINGER_WAIT, WRITE_STALL_WAIT};

/// Request that stands for a refused head.
const REFUSED: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// Bytes received at a time while a head is awaited.
const RECEIVE_BYTES: usize = 4096;

/// Reason for the refusal of the last request of a connection. Shared by the connection and the
/// service that answers its requests.
#[derive(Debug, Clone, Default)]
pub(super) struct RefusedHead(Arc<OnceLock<(u64, HeadError)>>);

impl RefusedHead {
    /// Returns why the head of a request was refused; requests are counted from zero.
    pub(super) fn of_request(&self, number: u64) -> Option<HeadError> {
        let (refused, error) = self.0.get()?;
        (*refused == number).then_some(*error)
    }
}

/// A connection whose heads are checked. Owned by hyper.
#[derive(Debug)]
pub(super) struct CheckedStream<S> {
    stream: S,
    framing: Framing,
    /// Bytes that were received and not handed out.
    held: BytesMut,
    /// How many of them are accepted.
    accepted: usize,
    refused: RefusedHead,
    input: Input,
    linger: Option<Linger>,
    /// While bytes wait for the peer: the end of the time in which it must take or send some.
    stalled: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Open,
    /// The peer has ended its side.
    Ended,
    /// A head was refused.
    HeadRefused,
    /// A chunk was refused.
    ChunkRefused,
}

/// Time and bytes that the peer has left to end its side.
#[derive(Debug)]
struct Linger {
    until: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl<S> CheckedStream<S> {
    pub(super) fn new(stream: S, refused: RefusedHead) -> Self {
        Self {
            stream,
            framing: Framing::new(),
            held: BytesMut::new(),
            accepted: 0,
            refused,
            input: Input::Open,
            linger: None,
            stalled: None,
        }
    }

    /// Adds [`WRITE_STALL_WAIT`] to the result of an attempt to write.
    fn limit<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = &mut self.stalled;
        let late = stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_STALL_WAIT)));
        late.as_mut().poll(context).map(|()| {
            let why = "the client does not read its answer";
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }

    /// Walks over the bytes that are held. None of them is accepted yet.
    fn check(&mut self) {
        let (accepted, rest) = self.framing.walk(&self.held);
        self.accepted = accepted;
        self.note(rest);
    }

    fn note(&mut self, rest: Result<(), Refusal>) {
        match rest {
            Ok(()) => {}
            Err(Refusal::Chunk) => {
                self.held.truncate(self.accepted);
                self.input = Input::ChunkRefused;
            }
            Err(Refusal::Head(error)) => {
                let _ = self.refused.0.set((self.framing.heads(), error));
                self.held.truncate(self.accepted);
                self.held.extend_from_slice(REFUSED);
                self.accepted = self.held.len();
                self.input = Input::HeadRefused;
            }
        }
    }

    /// Returns whether the peer may still be sending what nothing will read. Closing then resets
    /// the connection, and the answer may be lost with it.
    fn has_unread_input(&self) -> bool {
        match self.input {
            Input::Ended => false,
            Input::Open => !self.framing.is_in_head() || !self.held.is_empty(),
            Input::HeadRefused | Input::ChunkRefused => true,
        }
    }
}

impl<S: AsyncRead + Unpin> CheckedStream<S> {
    /// Receives bytes of the peer.
    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            // Its time begins anew with the next attempt to write.
            self.stalled = None;
        }
        read
    }

    /// Receives while a head is awaited: the bytes are held.
    fn poll_hold(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = [0; RECEIVE_BYTES];
        let mut received = ReadBuf::new(&mut space);
        ready!(self.poll_receive(context, &mut received))?;
        match received.filled() {
            [] => self.input = Input::Ended,
            bytes => {
                self.held.extend_from_slice(bytes);
                self.check();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Receives while a body is awaited: its bytes go to the reader at once, what follows it is
    /// held.
    fn poll_pass(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(self.poll_receive(context, buffer))?;
        let received = &buffer.filled()[before..];
        if received.is_empty() {
            self.input = Input::Ended;
            return Poll::Ready(Ok(()));
        }
        let (accepted, rest) = self.framing.walk(received);
        self.held.extend_from_slice(&received[accepted..]);
        buffer.set_filled(before + accepted);
        self.accepted = 0;
        self.note(rest);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CheckedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        loop {
            if this.accepted > 0 {
                let count = this.accepted.min(buffer.remaining());
                buffer.put_slice(&this.held[..count]);
                this.held.advance(count);
                this.accepted -= count;
            }
            if buffer.filled().len() > before || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            match this.input {
                Input::Ended => return Poll::Ready(Ok(())),
                // An end would make hyper give up the answer.
                Input::HeadRefused => return Poll::Pending,
                Input::ChunkRefused => {
                    let why = "a chunk of the body is malformed (RFC 9112, section 7.1)";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
                }
                Input::Open if this.framing.is_in_head() => ready!(this.poll_hold(context))?,
                Input::Open => ready!(this.poll_pass(context, buffer))?,
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for CheckedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.limit(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.limit(flushed, context)
    }

    /// Ends this side, and reads on for a while if the peer may still be sending.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            let ended = Pin::new(&mut this.stream).poll_shutdown(context);
            ready!(this.limit(ended, context))?;
            if !this.has_unread_input() {
                return Poll::Ready(Ok(()));
            }
        }
        let linger = this.linger.get_or_insert_with(|| Linger {
            until: Box::pin(sleep(LINGER_WAIT)),
            bytes_left: LINGER_BYTES_MAX,
        });
        loop {
            let mut space = [0; RECEIVE_BYTES];
            let mut received = ReadBuf::new(&mut space);
            match Pin::new(&mut this.stream).poll_read(context, &mut received) {
                Poll::Pending => return linger.until.as_mut().poll(context).map(Ok),
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => {}
            }
            let count = received.filled().len();
            if count == 0 || count > linger.bytes_left {
                return Poll::Ready(Ok(()));
            }
            linger.bytes_left -= count;
        }
    }
}
