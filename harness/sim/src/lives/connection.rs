//! A connection of the control API in memory, whose bytes arrive when the test says so.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Default)]
struct State {
    inbound: VecDeque<u8>,
    outbound: Vec<u8>,
    /// The client has ended its side.
    ended: bool,
    broken: bool,
    /// The server has closed the connection.
    closed: bool,
    /// Whoever waits for bytes.
    reader: Option<Waker>,
}

/// The client's side.
#[derive(Clone, Default)]
pub(super) struct Connection(Arc<Mutex<State>>);

/// The server's side.
pub(super) struct Socket(Arc<Mutex<State>>);

impl Connection {
    pub(super) fn socket(&self) -> Socket {
        Socket(Arc::clone(&self.0))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock();
        change(&mut state);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    pub(super) fn say(&self, bytes: &[u8]) {
        self.change(|state| state.inbound.extend(bytes));
    }

    pub(super) fn end(&self) {
        self.change(|state| state.ended = true);
    }

    pub(super) fn break_off(&self) {
        self.change(|state| state.broken = true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    /// Takes what the server has sent.
    pub(super) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().outbound)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.lock().closed = true;
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        if state.broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if state.inbound.is_empty() && !state.ended {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = buffer.remaining().min(state.inbound.len());
        let bytes: Vec<_> = state.inbound.drain(..count).collect();
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock();
        if state.broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        state.outbound.extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
