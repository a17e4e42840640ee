//! The readiness of many sockets on one thread: epoll, and a waker for other threads.
//!
//! Small on purpose: the measuring side must not share the server's poller.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

pub use rustix::event::epoll::EventFlags as Interest;

/// Events that one wait can bring.
const BATCH_MAX: usize = 1024;

/// One thread's epoll. Must be dropped on the thread that made it when descriptors are private.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

/// What a wait brought. Reused from wait to wait.
pub struct EventBatch {
    events: Vec<epoll::Event>,
    filled: usize,
}

/// One socket's news.
#[derive(Debug, Clone, Copy)]
pub struct Readiness {
    /// The number under which the socket was added.
    pub token: u64,
    /// What it is ready for.
    pub flags: Interest,
}

impl Poller {
    /// An empty poller.
    ///
    /// # Errors
    ///
    /// When there is no descriptor left.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll })
    }

    /// Watches `source` under `token`, level-triggered unless `interest` says otherwise.
    ///
    /// # Errors
    ///
    /// When `source` is watched already, or the kernel has no memory or watches left.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            source,
            epoll::EventData::new_u64(token),
            interest,
        )?)
    }

    /// Watches `source` for something else.
    ///
    /// # Errors
    ///
    /// When `source` is not watched.
    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(
            &self.epoll,
            source,
            epoll::EventData::new_u64(token),
            interest,
        )?)
    }

    /// Stops watching `source` without closing it.
    ///
    /// # Errors
    ///
    /// When `source` is not watched.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits for events. An interrupted wait is an empty batch: the caller's turn goes on.
    ///
    /// # Errors
    ///
    /// Those of `epoll_wait` except `EINTR`. They mean a bug in the program.
    pub fn wait(&self, batch: &mut EventBatch, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        batch.filled = match epoll::wait(&self.epoll, &mut batch.events[..], timeout.as_ref()) {
            Err(Errno::INTR) => 0,
            filled => filled?,
        };
        Ok(())
    }
}

impl EventBatch {
    /// Room for one wait.
    pub fn new() -> Self {
        let nothing = epoll::Event {
            flags: Interest::empty(),
            data: epoll::EventData::new_u64(0),
        };
        Self {
            events: vec![nothing; BATCH_MAX],
            filled: 0,
        }
    }

    /// The news of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Readiness> + '_ {
        self.events[..self.filled].iter().map(|event| {
            let (flags, data) = (event.flags, event.data);
            Readiness {
                token: data.u64(),
                flags,
            }
        })
    }
}

impl Default for EventBatch {
    fn default() -> Self {
        Self::new()
    }
}

/// Ends another thread's wait. Made before the thread that waits takes a table of its own, so
/// that both tables hold it.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    /// A waker that has not been called.
    ///
    /// # Errors
    ///
    /// When there is no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            event: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// Ends the wait of the poller that watches this waker.
    pub fn wake(&self) {
        // A full counter wakes as well as one more would.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Takes note that the wake was heard.
    pub fn acknowledge(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.event, &mut count);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.event.as_fd()
    }
}
