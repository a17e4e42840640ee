//! Readiness of many sockets on one thread: epoll, and a waker for other threads.
//!
//! Separate from the server's poller, as a client that shares code with the server shares its bugs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
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
#[derive(Default)]
pub struct EventBatch(Vec<epoll::Event>);

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
        batch.0.clear();
        batch.0.reserve(BATCH_MAX);
        let room = spare_capacity(&mut batch.0);
        match epoll::wait(&self.epoll, room, timeout.as_ref()) {
            Err(Errno::INTR) => Ok(()),
            waited => Ok(waited.map(drop)?),
        }
    }
}

impl EventBatch {
    /// Iterates over the events of the last wait: the token given to [`Poller::add`], and what the
    /// socket is ready for.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Interest)> + '_ {
        self.0.iter().map(|event| (event.data.u64(), event.flags))
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
