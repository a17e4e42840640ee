//! Poller shared by all workers, as in Erlang before each scheduler got its own. It exists to
//! measure the cost of sharing; no server uses it by default.
//!
//! Each socket still belongs to one worker. One idle worker waits in the kernel for all. It puts
//! the signals of the others into their seats and wakes them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use super::poller::{signal, wait};
use crate::driver::{Signal, Token};

/// Shared poller and its seats, one for each worker.
#[derive(Debug)]
pub struct SharedPoller {
    epoll: OwnedFd,
    /// Registrations, indexed by descriptor.
    routes: Mutex<Vec<Route>>,
    table: Mutex<Table>,
    bells: Box<[Condvar]>,
}

/// Registration of a descriptor: its worker and its token.
#[derive(Debug, Clone, Copy)]
struct Route {
    seat: usize,
    token: Token,
    /// Distinguishes this registration from earlier ones of the same descriptor.
    serial: u32,
}

#[derive(Debug)]
struct Table {
    /// Whether a worker waits in the kernel.
    polling: bool,
    seats: Vec<Seat>,
}

/// Signals for one worker, found by any worker.
#[derive(Debug, Default)]
struct Seat {
    signals: Vec<Signal>,
    asleep: bool,
}

impl SharedPoller {
    /// Makes a poller for this number of workers.
    ///
    /// # Errors
    ///
    /// When there is no descriptor left.
    pub fn new(workers: usize) -> io::Result<Self> {
        let table = Table {
            polling: false,
            seats: (0..workers).map(|_| Seat::default()).collect(),
        };
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            routes: Mutex::default(),
            table: Mutex::new(table),
            bells: (0..workers).map(|_| Condvar::new()).collect(),
        })
    }

    pub(super) const fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    pub(super) fn add(
        &self,
        seat: usize,
        fd: BorrowedFd<'_>,
        token: Token,
        mut events: EventFlags,
    ) -> rustix::io::Result<()> {
        // With one epoll instance there is none to exclude, and an exclusive watch cannot be
        // modified.
        events.remove(EventFlags::EXCLUSIVE);
        let number = fd.as_raw_fd() as usize;
        let mut routes = self.routes.lock();
        let vacant = Route {
            seat,
            token,
            serial: 0,
        };
        if routes.len() <= number {
            routes.resize(number + 1, vacant);
        }
        let serial = routes[number].serial.wrapping_add(1);
        routes[number] = Route { serial, ..vacant };
        epoll::add(&self.epoll, fd, data(fd.as_raw_fd(), serial), events)
    }

    pub(super) fn modify(&self, fd: BorrowedFd<'_>, events: EventFlags) -> rustix::io::Result<()> {
        let serial = self.routes.lock()[fd.as_raw_fd() as usize].serial;
        epoll::modify(&self.epoll, fd, data(fd.as_raw_fd(), serial), events)
    }

    /// Waits for signals of the worker at this seat.
    pub(super) fn wait(
        &self,
        seat: usize,
        events: &mut Vec<Event>,
        timeout: Option<Duration>,
        signals: &mut Vec<Signal>,
    ) -> io::Result<()> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut table = self.table.lock();
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let mine = &mut table.seats[seat];
            if !mine.signals.is_empty() {
                signals.append(&mut mine.signals);
                self.wake_next_poller(&table);
                return Ok(());
            }
            if !table.polling {
                table.polling = true;
                drop(table);
                let waited = wait(&self.epoll, events, left);
                table = self.table.lock();
                table.polling = false;
                waited?;
                self.dispatch(events, &mut table, seat);
            } else if left != Some(Duration::ZERO) {
                table.seats[seat].asleep = true;
                match until {
                    Some(until) => drop(self.bells[seat].wait_until(&mut table, until)),
                    None => self.bells[seat].wait(&mut table),
                }
                table.seats[seat].asleep = false;
            }
            let is_over = until.is_some_and(|until| until <= Instant::now());
            if is_over && table.seats[seat].signals.is_empty() {
                self.wake_next_poller(&table);
                return Ok(());
            }
        }
    }

    /// Puts events into the seats of their workers.
    fn dispatch(&self, events: &[Event], table: &mut Table, finder: usize) {
        let routes = self.routes.lock();
        for event in events {
            let (flags, data) = (event.flags, event.data.u64());
            let (number, serial) = (data as u32, (data >> 32) as u32);
            let route = routes[number as usize];
            // A descriptor that was closed since may belong to another worker now.
            if route.serial != serial {
                continue;
            }
            let lying = &mut table.seats[route.seat].signals;
            let signal = signal(route.token, flags);
            // A listener is reported again until its worker accepts.
            if !lying.contains(&signal) {
                lying.push(signal);
            }
        }
        for (number, seat) in table.seats.iter().enumerate() {
            if number != finder && seat.asleep && !seat.signals.is_empty() {
                self.bells[number].notify_one();
            }
        }
    }

    /// Wakes an idle worker to wait in the kernel, unless one does.
    fn wake_next_poller(&self, table: &Table) {
        if table.polling {
            return;
        }
        let idle = |seat: &Seat| seat.asleep && seat.signals.is_empty();
        if let Some(number) = table.seats.iter().position(idle) {
            self.bells[number].notify_one();
        }
    }
}

fn data(number: RawFd, serial: u32) -> EventData {
    EventData::new_u64(u64::from(serial) << 32 | number as u64)
}
