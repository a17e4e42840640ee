//! Descriptors that are kept for the control listener.
//!
//! Clients of the public listener can take every descriptor of the process. The reserve holds some,
//! and gives one up when a connection could not be accepted. A connection that ends gives its
//! descriptor back in one step, so that no other thread can take it in between.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::limits::{RESERVED_DESCRIPTORS_MAX, RESERVED_PART};

/// The reserve of a listener. Lives as long as its connections.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// What the spare descriptors refer to. A descriptor in use keeps its number from others.
    file: Option<OwnedFd>,
    spare: Mutex<Vec<OwnedFd>>,
    size: usize,
    returned: Notify,
}

impl Reserve {
    /// Takes as many descriptors as the process may spare.
    pub(crate) fn take() -> Arc<Self> {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let size = (limit / RESERVED_PART).min(RESERVED_DESCRIPTORS_MAX as u64) as usize;
        let reserve = Self {
            file: eventfd(0, EventfdFlags::CLOEXEC).ok(),
            spare: Mutex::default(),
            size,
            returned: Notify::new(),
        };
        reserve.refill();
        Arc::new(reserve)
    }

    /// Takes descriptors that are missing, as far as there are any.
    pub(crate) fn refill(&self) {
        let Some(file) = &self.file else { return };
        let mut spare = self.spare.lock();
        while spare.len() < self.size
            && let Ok(descriptor) = fcntl_dupfd_cloexec(file, 0)
        {
            spare.push(descriptor);
        }
    }

    /// Frees one descriptor. False if there is none left.
    pub(crate) fn release(&self) -> bool {
        self.spare.lock().pop().is_some()
    }

    /// Waits until a connection has given its descriptor back.
    pub(crate) async fn returned(&self) {
        while self.spare.lock().is_empty() {
            self.returned.notified().await;
        }
    }

    /// Closes a socket, and keeps its descriptor if one is missing.
    fn give_back(&self, mut socket: OwnedFd) {
        let mut spare = self.spare.lock();
        if let Some(file) = &self.file
            && spare.len() < self.size
            && dup3(file, &mut socket, DupFlags::CLOEXEC).is_ok()
        {
            spare.push(socket);
        }
        self.returned.notify_one();
    }
}

/// Socket of a connection, whose descriptor goes back to the reserve. Owned by hyper.
#[derive(Debug)]
pub(crate) struct Socket {
    /// There until it is dropped.
    stream: Option<TcpStream>,
    reserve: Arc<Reserve>,
}

impl Socket {
    pub(crate) const fn new(stream: TcpStream, reserve: Arc<Reserve>) -> Self {
        Self {
            stream: Some(stream),
            reserve,
        }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        let stream = self.get_mut().stream.as_mut();
        Pin::new(stream.expect("it is taken when the socket is dropped"))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(Ok(socket)) = self.stream.take().map(TcpStream::into_std) {
            self.reserve.give_back(socket.into());
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_descriptor_comes_back_as_the_same_number() {
        let reserve = Reserve::take();
        assert_eq!(reserve.spare.lock().len(), reserve.size);
        assert!(reserve.size > 0);
        assert!(reserve.release());
        let socket = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        let number = socket.as_raw_fd();
        reserve.give_back(socket);
        let last = reserve.spare.lock().last().map(AsRawFd::as_raw_fd);
        assert_eq!(last, Some(number));
        // It is full again: another one is closed.
        reserve.give_back(eventfd(1, EventfdFlags::CLOEXEC).unwrap());
        assert_eq!(reserve.spare.lock().len(), reserve.size);
        for _ in 0..reserve.size {
            assert!(reserve.release());
        }
        assert!(!reserve.release());
        reserve.refill();
        assert_eq!(reserve.spare.lock().len(), reserve.size);
    }
}
