//! Poller of a worker: its own, or a seat at one that all workers share.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::shared::SharedPoller;
use crate::driver::{Signal, Token};

/// Signals taken from the kernel at a time. A turn acts on all of them, so this bounds the delay of
/// mail and deadlines.
pub(super) const SIGNALS_PER_WAIT: usize = 256;

const ENDED: EventFlags = EventFlags::RDHUP
    .union(EventFlags::HUP)
    .union(EventFlags::ERR);

/// Poller of a worker.
#[derive(Debug)]
pub(super) enum Poller {
    Own(OwnedFd),
    Shared(Arc<SharedPoller>, usize),
}

impl Poller {
    pub(super) fn own() -> io::Result<Self> {
        Ok(Self::Own(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    pub(super) fn add(&self, fd: impl AsFd, token: Token, events: EventFlags) -> io::Result<()> {
        match self {
            Self::Own(epoll) => epoll::add(epoll, fd, EventData::new_u64(token.to_bits()), events)?,
            Self::Shared(shared, seat) => shared.add(*seat, fd.as_fd(), token, events)?,
        }
        Ok(())
    }

    pub(super) fn modify(&self, fd: impl AsFd, token: Token, events: EventFlags) -> io::Result<()> {
        match self {
            Self::Own(epoll) => {
                epoll::modify(epoll, fd, EventData::new_u64(token.to_bits()), events)?
            }
            Self::Shared(shared, _) => shared.modify(fd.as_fd(), events)?,
        }
        Ok(())
    }

    pub(super) fn delete(&self, fd: impl AsFd) -> io::Result<()> {
        let epoll = match self {
            Self::Own(epoll) => epoll,
            Self::Shared(shared, _) => shared.epoll(),
        };
        Ok(epoll::delete(epoll, fd)?)
    }

    /// Waits for signals, and replaces the contents of `signals`.
    pub(super) fn wait(
        &self,
        events: &mut Vec<Event>,
        timeout: Option<Duration>,
        signals: &mut Vec<Signal>,
    ) -> io::Result<()> {
        signals.clear();
        match self {
            Self::Own(epoll) => {
                wait(epoll, events, timeout)?;
                signals.extend(events.iter().map(|event| {
                    let (flags, data) = (event.flags, event.data.u64());
                    signal(Token::from_bits(data), flags)
                }));
                Ok(())
            }
            Self::Shared(shared, seat) => shared.wait(*seat, events, timeout, signals),
        }
    }
}

/// Waits for events, and replaces the contents of `events`. An interrupted wait returns those there
/// are: it may have been interrupted by a stop of the process, and deadlines must not be checked
/// before what came meanwhile is read.
pub(super) fn wait(
    epoll: &OwnedFd,
    events: &mut Vec<Event>,
    timeout: Option<Duration>,
) -> io::Result<()> {
    let waited = match wait_once(epoll, events, timeout) {
        Err(Errno::INTR) => wait_once(epoll, events, Some(Duration::ZERO)),
        other => other,
    };
    match waited {
        Ok(()) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn wait_once(
    epoll: &OwnedFd,
    events: &mut Vec<Event>,
    timeout: Option<Duration>,
) -> rustix::io::Result<()> {
    events.clear();
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: i64::from(timeout.subsec_nanos()),
    });
    epoll::wait(epoll, spare_capacity(events), timeout.as_ref()).map(drop)
}

pub(super) fn signal(token: Token, flags: EventFlags) -> Signal {
    Signal {
        token,
        readable: !(flags & !EventFlags::OUT).is_empty(),
        writable: flags.contains(EventFlags::OUT),
        ended: flags.intersects(ENDED),
    }
}
