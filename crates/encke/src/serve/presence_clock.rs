//! Clock of presence: announces changes ten times a second.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use presence::{Millis, STEP};
use server::Handle;

/// The presence thread; `None` without presence. It ends when this is dropped.
pub(super) struct PresenceClock(Option<(SyncSender<()>, JoinHandle<()>)>);

impl PresenceClock {
    /// Starts the thread.
    pub(super) fn start(server: &Handle) -> io::Result<Self> {
        if server.presence().is_none() {
            return Ok(Self(None));
        }
        let (started, server) = (Instant::now(), server.clone());
        let (end, ended) = mpsc::sync_channel(0);
        let thread = Builder::new().name("encke-presence".to_owned());
        let thread = thread.spawn(move || {
            let tick = || server.tick_presence(Millis(started.elapsed().as_millis() as u64));
            while ended.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                tick();
            }
            // The webhook has ended: a last tick tells the other nodes what it has reported.
            tick();
        })?;
        Ok(Self(Some((end, thread))))
    }
}

impl Drop for PresenceClock {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // A panic has been reported by the thread.
            let _ = thread.join();
        }
    }
}
