//! One poller for all workers, as Erlang had it until each of its schedulers got one of its own.
//! Here only to measure what that costs: no server runs on it unless told to.
//!
//! Sockets still belong to one worker each. Whoever has nothing to do waits in the kernel for all,
//! unless somebody does already; what it finds for others it lays before them, and wakes them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::epoll::{self, Event, EventData, EventFlags};

use super::poller::{signal, wait};
use crate::driver::{Signal, Token};

/// A poller and its seats, one for each worker.
#[derive(Debug)]
pub struct SharedPoller {
    epoll: OwnedFd,
    /// By descriptor.
    routes: Mutex<Vec<Route>>,
    table: Mutex<Table>,
    bells: Box<[Condvar]>,
}

/// Whose a descriptor is.
#[derive(Debug, Clone, Copy)]
struct Route {
    seat: usize,
    token: Token,
    /// Tells this registration from earlier ones of the same descriptor.
    serial: u32,
}

#[derive(Debug)]
struct Table {
    /// Somebody waits in the kernel.
    polling: bool,
    seats: Vec<Seat>,
}

/// What lies before a worker.
#[derive(Debug, Default)]
struct Seat {
    signals: Vec<Signal>,
    asleep: bool,
}

impl SharedPoller {
    /// A poller for so many workers.
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
        // One epoll instance has nobody to exclude, and would let an exclusive watch not be
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

    /// Fills `signals` with what concerns the worker of this seat.
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
                self.call_a_successor(&table);
                return Ok(());
            }
            if !table.polling {
                table.polling = true;
                drop(table);
                let waited = wait(&self.epoll, events, left);
                table = self.table.lock();
                table.polling = false;
                waited?;
                self.lay_out(events, &mut table, seat);
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
                self.call_a_successor(&table);
                return Ok(());
            }
        }
    }

    /// Lays events before those whom they concern.
    fn lay_out(&self, events: &[Event], table: &mut Table, finder: usize) {
        let routes = self.routes.lock();
        for event in events {
            let (flags, data) = (event.flags, event.data.u64());
            let (number, serial) = (data as u32, (data >> 32) as u32);
            let route = routes[number as usize];
            // A descriptor that was closed since may be somebody else's by now.
            if route.serial != serial {
                continue;
            }
            let lying = &mut table.seats[route.seat].signals;
            let signal = signal(route.token, flags);
            // A listener is found again until its worker has looked.
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

    /// Lets somebody else wait in the kernel.
    fn call_a_successor(&self, table: &Table) {
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
