//! Clock of the history: passes the time to it once a second, so that old events are removed even
//! if none is published.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use server::Handle;

use crate::config::unix_time;

const TICK: Duration = Duration::from_secs(1);

/// The thread of the clock; `None` without a history. It ends when this is dropped.
pub(super) struct HistoryClock(Option<(SyncSender<()>, JoinHandle<()>)>);

impl HistoryClock {
    /// Passes the time to the history and starts the thread.
    pub(super) fn start(server: &Handle) -> io::Result<Self> {
        if server.router().recorder().is_none() {
            return Ok(Self(None));
        }
        // The clock of the system may be set. That must not change the age of events.
        let (begun, started) = (unix_time(), Instant::now());
        let server = server.clone();
        let tick = move || {
            let seconds = begun.as_secs() + started.elapsed().as_secs();
            server
                .router()
                .tick(u32::try_from(seconds).unwrap_or(u32::MAX));
        };
        tick();
        let (end, ended) = mpsc::sync_channel(0);
        let thread = Builder::new().name("encke-clock".to_owned());
        let thread = thread.spawn(move || {
            while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                tick();
            }
        })?;
        Ok(Self(Some((end, thread))))
    }
}

impl Drop for HistoryClock {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // A panic has been reported by the thread.
            let _ = thread.join();
        }
    }
}
