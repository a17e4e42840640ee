//! CPU time that a process spends, and what that is for each session or event.

use std::thread;
use std::time::{Duration, Instant};

use machine::failure::Outcome;
use recorder::measure::{CpuTime, median};

use crate::processes::Clients;
use load::flood::driven::Answer;

/// Pause after a ramp, and before a reading, so that work under way can finish.
pub(crate) const SETTLE: Duration = Duration::from_secs(2);

/// Running measurement of a process.
pub(crate) struct Meter {
    pid: u32,
    before: CpuTime,
    begun: Instant,
}

/// Time that a process has spent.
#[derive(Debug, Clone)]
pub(crate) struct Spent {
    /// CPU time.
    pub(crate) cpu: CpuTime,
    /// Time on the clock.
    pub(crate) seconds: f64,
}

/// Cost of a round of events, for each of them.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    pub(crate) total_us: f64,
    pub(crate) events: f64,
    /// System calls, if they are counted.
    pub(crate) calls: Option<f64>,
    pub(crate) rate: f64,
    pub(crate) cpu: CpuTime,
}

/// Cost of opening many sessions, for each of them.
#[derive(Debug, Clone)]
pub(crate) struct Ramp {
    /// Seconds until the last was open and, if it missed events, had caught up.
    pub(crate) seconds: f64,
    /// Sessions a second.
    pub(crate) rate: f64,
    pub(crate) total_us: f64,
    /// Part of it in user mode. Ticks are coarse, so only their ratio is used, applied to the exact
    /// total.
    pub(crate) user_us: f64,
    pub(crate) seen: Answer,
}

impl Meter {
    pub(crate) fn start(pid: u32) -> Outcome<Self> {
        Ok(Self {
            pid,
            before: CpuTime::of(pid)?,
            begun: Instant::now(),
        })
    }

    pub(crate) fn stop(&self) -> Outcome<Spent> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let cpu = &CpuTime::of(self.pid)? - &self.before;
        Ok(Spent { cpu, seconds })
    }
}

impl Spent {
    /// Measures a process that has nothing to do, to subtract its heartbeats and timers later.
    pub(crate) fn idle(pid: u32, length: Duration) -> Outcome<Self> {
        let meter = Meter::start(pid)?;
        thread::sleep(length);
        meter.stop()
    }

    /// Subtracts what the process spends when it is idle.
    pub(crate) fn without(mut self, idle: &Self) -> Self {
        self.cpu = self.cpu.without_idle(self.seconds, &idle.cpu, idle.seconds);
        self
    }

    /// Returns the microseconds of CPU time for each of `count`.
    pub(crate) fn micros_each(&self, count: f64) -> f64 {
        self.cpu.total as f64 / 1000.0 / count
    }
}

impl Round {
    /// Divides the cost of a round among its events. `calls` are the system calls of all.
    pub(crate) fn of(spent: Spent, events: f64, calls: Option<f64>) -> Self {
        Self {
            total_us: spent.micros_each(events),
            events,
            calls: calls.map(|calls| calls / events),
            rate: events / spent.seconds,
            cpu: spent.cpu,
        }
    }

    /// Returns the share of user time over all rounds: ticks are coarse, so they are summed up.
    pub(crate) fn user_share(rounds: &[Self]) -> f64 {
        let sum = |of: fn(&CpuTime) -> u64| rounds.iter().map(|round| of(&round.cpu)).sum::<u64>();
        sum(|cpu| cpu.user) as f64 / sum(|cpu| cpu.user + cpu.system).max(1) as f64
    }
}

impl Ramp {
    /// Measures process `pid` while the clients that `start` starts open, and until they have
    /// caught up, which `finish` awaits. Then closes them.
    pub(crate) fn measure(
        pid: u32,
        start: impl FnOnce() -> Outcome<Clients>,
        finish: impl FnOnce(&mut Clients, Answer) -> Outcome<Answer>,
    ) -> Outcome<Self> {
        let meter = Meter::start(pid)?;
        let mut clients = start()?;
        let opened = clients.opened()?;
        let seen = finish(&mut clients, opened)?;
        let spent = meter.stop()?;
        let sessions = f64::from(clients.connections());
        clients.quit();
        let total_us = spent.micros_each(sessions);
        Ok(Self {
            seconds: seen.seconds,
            rate: sessions / seen.seconds,
            total_us,
            user_us: total_us * spent.cpu.user_share(),
            seen,
        })
    }
}

/// Returns the median of a value of each round.
pub(crate) fn median_of<T>(rounds: &[T], of: impl Fn(&T) -> f64) -> f64 {
    median(&rounds.iter().map(of).collect::<Vec<f64>>())
}
