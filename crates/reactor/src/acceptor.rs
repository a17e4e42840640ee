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

/// Pause in accepting when the process is out of descriptors. It ends earlier when a connection
/// ends.
const PAUSE: Duration = Duration::from_millis(100);

/// Listeners of one worker, each with a context that the worker keeps beside it.
///
/// ```
/// use std::time::Duration;
///
/// use reactor::{Acceptor, Driver, ListenerOptions, Mailbox, RateLimitedWarnings, System};
///
/// let mailbox = Mailbox::<()>::new(1)?;
/// let mut driver = System::new(&mailbox)?;
/// let warnings = RateLimitedWarnings::new(Duration::from_secs(60));
/// let mut acceptor = Acceptor::new(warnings, "raise the limit with `ulimit -n`");
/// let options = ListenerOptions {
///     backlog: 128,
///     user_timeout: Duration::from_secs(60),
///     keepalive: None,
///     defer_accept: None,
///     fast_open: None,
///     send_buffer: None,
/// };
/// let address = ([127, 0, 0, 1], 0).into();
/// acceptor.open(&mut driver, "public", |driver, token| driver.listen(address, &options, token))?;
///
/// let public = acceptor.get(0).expect("listeners are numbered from 0");
/// assert_eq!(public.context, "public");
/// acceptor.close(&mut driver, |_| false);
/// assert!(acceptor.listeners().is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
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
    /// The listener's number in its [`Token`]. It is not reused.
    pub id: u32,
    /// Context that the worker keeps beside the listener.
    pub context: T,
    listener: L,
}

impl<L, T> Acceptor<L, T> {
    /// Makes an acceptor without listeners. `remedy` tells operators what to do when descriptors
    /// run out.
    pub const fn new(warnings: RateLimitedWarnings, remedy: &'static str) -> Self {
        Self {
            open: Vec::new(),
            next_id: 0,
            paused_until: None,
            warnings,
            remedy,
        }
    }

    /// Adds the listener that `listen` opens and registers under the token that it is given.
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

    /// Returns the open listeners.
    pub fn listeners(&self) -> &[Open<L, T>] {
        &self.open
    }

    /// Returns the open listeners, to change their contexts.
    pub fn listeners_mut(&mut self) -> &mut [Open<L, T>] {
        &mut self.open
    }

    /// Returns the listener with this number, if it is open.
    pub fn get(&self, id: u32) -> Option<&Open<L, T>> {
        self.open.iter().find(|open| open.id == id)
    }

    /// Accepts one connection from a listener. Pauses accepting when the process is out of
    /// descriptors.
    pub fn accept<D: Driver<Listener = L>, C: Count>(
        &mut self,
        driver: &mut D,
        counters: &C,
        now: Tick,
        id: u32,
    ) -> Accepted<D::Socket> {
        let Some(open) = self.get(id) else {
            return Accepted::Nobody;
        };
        counters.add(C::Metric::ACCEPTS, 1);
        let accepted = driver.accept(&open.listener);
        if let Accepted::Exhausted(errno) = accepted {
            self.pause(driver, counters, now, &errno);
        }
        accepted
    }

    /// Pauses accepting, as descriptors or the kernel's memory for watches have run out.
    pub fn pause<D: Driver<Listener = L>, C: Count>(
        &mut self,
        driver: &mut D,
        counters: &C,
        now: Tick,
        error: &impl Display,
    ) {
        if self.open.is_empty() {
            return;
        }
        if self.paused_until.is_none() {
            counters.add(C::Metric::ACCEPT_PAUSES, 1);
            self.pause_listeners(driver, true);
        }
        self.paused_until = Some(now.after(PAUSE));
        let remedy = self.remedy;
        self.warnings.warn(now, "accept", "", || {
            format!("cannot accept another connection, accepting pauses: {error}; {remedy}")
        });
    }

    /// Returns the time until the pause ends; `None` without a pause.
    pub fn resume_in(&self, now: Tick) -> Option<Duration> {
        self.paused_until.map(|until| until.since(now))
    }

    /// Ends the pause if its time is over.
    pub fn resume_if_due<D: Driver<Listener = L>>(&mut self, driver: &mut D, now: Tick) {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.resume(driver);
        }
    }

    /// Ends the pause with the next turn, as a descriptor is free.
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

    /// Closes the listeners for which `keep` returns false. Connections that wait there are reset.
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
