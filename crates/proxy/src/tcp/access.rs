//! The access log: a line for each connection that asked for one, when it ends.
//!
//! A worker gathers the lines of a turn and hands them to a thread that writes them: no worker waits for
//! a disk. When that thread falls behind, lines are lost, and counted.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use reactor::Tick;
use wire::response::http_date;

use crate::tcp::closing::CloseReason;
use crate::tcp::limits::ACCESS_BATCHES_WAITING;
use crate::tcp::pair::{Origin, Pair};
use crate::tcp::stats::{Figure, WorkerStats};

/// Where lines go.
#[derive(Debug, Clone)]
pub struct AccessLog(SyncSender<String>);

impl AccessLog {
    /// Starts a thread that writes lines to `out`, and ends when all workers have ended and all lines
    /// are written.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn start(out: impl Write + Send + 'static) -> io::Result<(Self, JoinHandle<()>)> {
        let (sender, receiver) = sync_channel(ACCESS_BATCHES_WAITING);
        let thread = thread::Builder::new()
            .name("encke-access".to_owned())
            .spawn(move || write_lines(&receiver, out))?;
        Ok((Self(sender), thread))
    }
}

fn write_lines(receiver: &Receiver<String>, mut out: impl Write) {
    for lines in receiver {
        if let Err(error) = out.write_all(lines.as_bytes()).and_then(|()| out.flush()) {
            tracing::error!("the access log ends here, as it cannot be written to: {error}");
            return;
        }
    }
}

/// A worker's end of it.
#[derive(Debug, Default)]
pub(crate) struct Access {
    log: Option<AccessLog>,
    lines: String,
    count: u64,
}

impl Access {
    pub(crate) const fn new(log: Option<AccessLog>) -> Self {
        Self {
            log,
            lines: String::new(),
            count: 0,
        }
    }

    /// Writes the line of a pair that has ended.
    pub(crate) fn write<S, P>(
        &mut self,
        pair: &Pair<S, P>,
        origin: &Origin,
        reason: CloseReason,
        now: Tick,
        unix_seconds: u64,
    ) {
        if self.log.is_none() {
            return;
        }
        let date = http_date(unix_seconds);
        let date = str::from_utf8(&date).expect("a date is ASCII");
        let backend = pair.server.as_deref().map_or("-", |server| &server.name);
        let seconds = now.since(origin.since).as_secs_f64();
        let written = writeln!(
            self.lines,
            "[{date}] client={} listener={} backend={backend} end={} seconds={seconds:.3} up={} \
             down={}",
            origin.source,
            pair.front.address,
            reason.name(),
            pair.bytes_up,
            pair.bytes_down
        );
        written.expect("a string takes all");
        self.count += 1;
    }

    /// Hands the turn's lines on.
    pub(crate) fn flush(&mut self, stats: &WorkerStats) {
        if self.count == 0 {
            return;
        }
        let lines = std::mem::take(&mut self.lines);
        let count = std::mem::take(&mut self.count);
        if let Some(log) = &self.log
            && log.0.try_send(lines).is_err()
        {
            stats.add(Figure::AccessLinesLost, count);
        }
    }
}
