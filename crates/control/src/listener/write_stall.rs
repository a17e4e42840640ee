//! Time limit for a client that takes no byte of its answer.
//!
//! Hyper has none: a client that does not read would keep its connection, and its place, for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::limits::WRITE_STALL_WAIT;

/// A connection that fails when its peer has taken and sent nothing for [`WRITE_STALL_WAIT`] while
/// bytes wait for it.
#[derive(Debug)]
pub(super) struct WriteStallLimit<S> {
    stream: S,
    /// While bytes wait: the end of the peer's time.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteStallLimit<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self {
            stream,
            stalled: None,
        }
    }

    /// Adds the time limit to the result of an attempt to write.
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
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteStallLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
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
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteStallLimit<S> {
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

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.limit(ended, context)
    }
}
