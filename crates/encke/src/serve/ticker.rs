//! Threads that do something at an interval.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use presence::{Millis, STEP};
use server::Handle;

use crate::config::unix_time;

/// Interval at which the history gets the time, so that old events are removed even if none is
/// published.
const HISTORY_INTERVAL: Duration = Duration::from_secs(1);

/// A thread that calls a function at an interval. It ends when this is dropped.
pub(super) struct Ticker(Option<(SyncSender<()>, JoinHandle<()>)>);

impl Ticker {
    /// Starts the thread, which calls `tick` at each interval and `last` at its end.
    pub(super) fn start(
        name: &str,
        interval: Duration,
        mut tick: impl FnMut() + Send + 'static,
        last: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let (end, ended) = mpsc::sync_channel(0);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                tick();
            }
            last();
        })?;
        Ok(Self(Some((end, thread))))
    }

    /// Starts the clock of the history, which has the time when this returns; `None` without a
    /// history.
    pub(super) fn of_history(server: &Handle) -> io::Result<Option<Self>> {
        if server.router().recorder().is_none() {
            return Ok(None);
        }
        // The clock of the system may be set. That must not change the age of events.
        let (begun, started) = (unix_time(), Instant::now());
        let server = server.clone();
        let tick = move || {
            let seconds = begun.as_secs() + started.elapsed().as_secs();
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            server.router().tick(seconds);
        };
        tick();
        Self::start("encke-clock", HISTORY_INTERVAL, tick, || ()).map(Some)
    }

    /// Starts the clock of presence, which announces changes ten times a second; `None` without
    /// presence. It must end after the webhook: its last tick tells the other nodes what the
    /// webhook has reported.
    pub(super) fn of_presence(server: &Handle) -> io::Result<Option<Self>> {
        if server.presence().is_none() {
            return Ok(None);
        }
        let (started, server) = (Instant::now(), server.clone());
        let tick = move || server.tick_presence(Millis(started.elapsed().as_millis() as u64));
        Self::start("encke-presence", STEP, tick.clone(), tick).map(Some)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // A panic has been reported by the thread.
            let _ = thread.join();
        }
    }
}
