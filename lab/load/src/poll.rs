//! Readiness of many sockets on one thread: epoll, and a waker for other threads.
//!
//! Separate from the server's poller, as a client that shares code with the server shares its bugs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

pub use rustix::event::epoll::EventFlags as Interest;

/// Most events of one wait.
const BATCH_MAX: usize = 1024;

/// One thread's epoll. Must be dropped on the thread that made it when descriptors are private.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

/// Events of a wait. Reused from wait to wait.
pub struct EventBatch {
    events: Vec<epoll::Event>,
    filled: usize,
}

/// Readiness of one socket.
#[derive(Debug, Clone, Copy)]
pub struct Readiness {
    /// Token given to [`Poller::add`].
    pub token: u64,
    /// What it is ready for.
    pub flags: Interest,
}

impl Poller {
    /// Creates an empty poller.
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

    /// Changes the interest in `source`.
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

    /// Waits for events. An interrupted wait returns an empty batch.
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
    /// Creates a batch with room for one wait.
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

    /// Iterates over the events of the last wait.
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

/// Waker, which ends another thread's wait. It must be created before that thread unshares its
/// descriptor table, so that both tables contain it.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    /// Creates a waker.
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
        // The write fails only if the counter is full, and then the wait ends anyway.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Resets the waker after it has ended a wait.
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
