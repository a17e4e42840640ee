//! Listeners of a worker, and the pause of accepting while descriptors or memory have run out.
//!
//! A listener stays readable while connections wait there: without the pause, a worker that cannot
//! accept them would spin.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use crate::driver::{Accepted, Driver, Tick, Token};
use crate::metrics::{Count, MetricSet};
use crate::warnings::RateLimitedWarnings;

/// How long accepting pauses when descriptors have run out, unless a connection ends before.
const PAUSE: Duration = Duration::from_millis(100);

/// Listeners of one worker, each with what the worker keeps beside it.
#[derive(Debug)]
pub struct Acceptor<L, T = ()> {
    open: Vec<Open<L, T>>,
    next_id: u32,
    paused_until: Option<Tick>,
    warnings: RateLimitedWarnings,
    remedy: &'static str,
}

/// An open listener.
#[derive(Debug)]
pub struct Open<L, T> {
    /// The listener's number in its [`Token`]. Never used again.
    pub id: u32,
    /// What the worker keeps beside the listener.
    pub context: T,
    listener: L,
}

impl<L, T> Acceptor<L, T> {
    /// An acceptor without listeners. `remedy` says what an operator can do when descriptors run
    /// out.
    pub const fn new(warnings: RateLimitedWarnings, remedy: &'static str) -> Self {
        Self {
            open: Vec::new(),
            next_id: 0,
            paused_until: None,
            warnings,
            remedy,
        }
    }

    /// Adds the listener that `listen` opens and has reported under the token it is given.
    ///
    /// # Errors
    ///
    /// Those of `listen`.
    pub fn open<D: Driver<Listener = L>>(
        &mut self,
        driver: &mut D,
        context: T,
        listen: impl FnOnce(&mut D, Token) -> io::Result<L>,
    ) -> io::Result<()> {
        let id = self.next_id;
        let token = Token::listener(id);
        let listener = listen(driver, token)?;
        if self.paused_until.is_some() {
            driver.pause_listener(&listener, token, true);
        }
        self.next_id += 1;
        self.open.push(Open {
            id,
            context,
            listener,
        });
        Ok(())
    }

    /// The open listeners.
    pub fn listeners(&self) -> &[Open<L, T>] {
        &self.open
    }

    /// The open listeners, whose contexts may change.
    pub fn listeners_mut(&mut self) -> &mut [Open<L, T>] {
        &mut self.open
    }

    /// The listener with this number, if it is open.
    pub fn get(&self, id: u32) -> Option<&Open<L, T>> {
        self.open.iter().find(|open| open.id == id)
    }

    /// Accepts one connection at a listener. When descriptors have run out, accepting pauses.
    pub fn accept<D: Driver<Listener = L>>(
        &mut self,
        driver: &mut D,
        counters: &impl Count,
        now: Tick,
        id: u32,
    ) -> Accepted<D::Socket> {
        let Some(open) = self.get(id) else {
            return Accepted::Nobody;
        };
        count_accept(counters);
        let accepted = driver.accept(&open.listener);
        if let Accepted::Exhausted(errno) = accepted {
            self.pause(driver, counters, now, &errno);
        }
        accepted
    }

    /// Pauses accepting for want of descriptors, or of the kernel's memory for watches.
    pub fn pause<D: Driver<Listener = L>>(
        &mut self,
        driver: &mut D,
        counters: &impl Count,
        now: Tick,
        error: &impl Display,
    ) {
        if self.open.is_empty() {
            return;
        }
        if self.paused_until.is_none() {
            count_pause(counters);
            self.pause_listeners(driver, true);
        }
        self.paused_until = Some(now.after(PAUSE));
        let remedy = self.remedy;
        self.warnings.warn(now, "accept", "", || {
            format!("cannot accept another connection, accepting pauses: {error}; {remedy}")
        });
    }

    /// Time until the pause ends, if there is one.
    pub fn resume_in(&self, now: Tick) -> Option<Duration> {
        self.paused_until.map(|until| until.since(now))
    }

    /// Ends the pause if its time is over.
    pub fn resume_if_due<D: Driver<Listener = L>>(&mut self, driver: &mut D, now: Tick) {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.resume(driver);
        }
    }

    /// Lets the pause end with the next turn: a descriptor is free.
    pub const fn resume_soon(&mut self, now: Tick) {
        if self.paused_until.is_some() {
            self.paused_until = Some(now);
        }
    }

    /// Ends the pause at once.
    pub fn resume<D: Driver<Listener = L>>(&mut self, driver: &mut D) {
        if self.paused_until.take().is_some() {
            self.pause_listeners(driver, false);
        }
    }

    /// Closes the listeners for which `keep` is false. Connections that wait there are reset.
    pub fn close<D: Driver<Listener = L>>(
        &mut self,
        driver: &mut D,
        mut keep: impl FnMut(&Open<L, T>) -> bool,
    ) {
        for open in self.open.extract_if(.., |open| !keep(open)) {
            driver.close_listener(open.listener);
        }
        if self.open.is_empty() {
            self.paused_until = None;
        }
    }

    fn pause_listeners<D: Driver<Listener = L>>(&self, driver: &mut D, paused: bool) {
        for open in &self.open {
            driver.pause_listener(&open.listener, Token::listener(open.id), paused);
        }
    }
}

fn count_accept<C: Count>(counters: &C) {
    counters.add(C::Metric::ACCEPTS, 1);
}

fn count_pause<C: Count>(counters: &C) {
    counters.add(C::Metric::ACCEPT_PAUSES, 1);
}
