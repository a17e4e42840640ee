//! Access log: one line for each closed connection of the listeners that have it enabled.
//!
//! A worker collects the lines of a turn and sends them to a writer thread, so that no worker waits
//! for a disk. If that thread falls behind or cannot write, lines are dropped and counted. It
//! resumes when it can write again.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use reactor::{Clock, RateLimitedWarnings, Tick};
use wire::response::http_date;

use crate::tcp::close_reason::CloseReason;
use crate::tcp::limits::{ACCESS_BATCHES_WAITING, WARNING_INTERVAL};
use crate::tcp::metrics::{Metric, WorkerCounters};
use crate::tcp::pair::{ClientInfo, Pair};

/// File or stream that lines are written to.
pub type AccessOutput = Box<dyn Write + Send>;

/// Access log of a proxy. Its writer thread ends when all clones are dropped and all lines are
/// written.
#[derive(Debug, Clone)]
pub struct AccessLog(Arc<Channel>);

/// Handle that reopens the log. It does not keep the writer thread running.
#[derive(Debug, Clone)]
pub struct AccessReopener(Weak<Channel>);

/// Channel to the writer thread.
#[derive(Debug)]
struct Channel {
    lines: SyncSender<String>,
    state: Arc<WriterState>,
}

/// State that workers share with the writer thread.
#[derive(Debug, Default)]
struct WriterState {
    reopen: AtomicBool,
    /// Lines that could not be written and that no worker has counted yet.
    lost: AtomicU64,
}

impl AccessLog {
    /// Starts the writer thread. It writes to `out`, and to the result of `open` after the log was
    /// reopened.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn start(
        out: AccessOutput,
        open: impl FnMut() -> io::Result<AccessOutput> + Send + 'static,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (lines, receiver) = sync_channel(ACCESS_BATCHES_WAITING);
        let state = Arc::new(WriterState::default());
        let writer = Writer {
            open,
            out: Some(out),
            state: Arc::clone(&state),
            torn: false,
            started: Instant::now(),
            warnings: RateLimitedWarnings::new(WARNING_INTERVAL),
        };
        let thread = thread::Builder::new()
            .name("encke-access".to_owned())
            .spawn(move || writer.run(&receiver))?;
        Ok((Self(Arc::new(Channel { lines, state })), thread))
    }

    /// Returns a handle that reopens the log.
    pub fn reopener(&self) -> AccessReopener {
        AccessReopener(Arc::downgrade(&self.0))
    }
}

impl AccessReopener {
    /// Reopens the log before the next line is written: its file may have been renamed.
    pub fn reopen(&self) {
        if let Some(channel) = self.0.upgrade() {
            channel.state.reopen.store(true, Ordering::Relaxed);
            // Wakes the writer. It is awake when the channel is full.
            let _ = channel.lines.try_send(String::new());
        }
    }
}

/// State of the writer thread.
struct Writer<O> {
    open: O,
    /// `None` after the reader of a pipe has closed it.
    out: Option<AccessOutput>,
    state: Arc<WriterState>,
    /// Only a part of the last line was written.
    torn: bool,
    started: Instant,
    warnings: RateLimitedWarnings,
}

impl<O: FnMut() -> io::Result<AccessOutput>> Writer<O> {
    fn run(mut self, batches: &Receiver<String>) {
        for lines in batches {
            if self.state.reopen.swap(false, Ordering::Relaxed) {
                self.reopen();
            }
            let mut rest = lines.as_bytes();
            if let Err(error) = self.write(&mut rest) {
                let lost = rest.iter().filter(|&&byte| byte == b'\n').count();
                self.state.lost.fetch_add(lost as u64, Ordering::Relaxed);
                self.warn(&error);
            }
        }
    }

    /// Writes `rest`, and removes the written bytes from it.
    fn write(&mut self, rest: &mut &[u8]) -> io::Result<()> {
        let Some(out) = &mut self.out else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        if self.torn && !rest.is_empty() {
            out.write_all(b"\n")?;
            self.torn = false;
        }
        while !rest.is_empty() {
            match out.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.torn = rest[count - 1] != b'\n';
                    *rest = &rest[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        out.flush()
    }

    fn reopen(&mut self) {
        match (self.open)() {
            Ok(out) => (self.out, self.torn) = (Some(out), false),
            Err(error) => tracing::error!(
                "the access log cannot be opened again, and goes on in the file that is open: \
                 {error}"
            ),
        }
    }

    fn warn(&mut self, error: &io::Error) {
        let now = Tick::default().after(self.started.elapsed());
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.warnings.warn(now, "access log", "", || {
                format!("lines of the access log are lost, as they cannot be written: {error}")
            });
        } else if self.out.take().is_some() {
            tracing::error!(
                "the reader of the access log has gone: lines are lost until SIGHUP reopens the log"
            );
        }
    }
}

/// Lines of one worker's turn.
#[derive(Debug, Default)]
pub(crate) struct AccessLogLines {
    log: Option<AccessLog>,
    lines: String,
    count: u64,
}

impl AccessLogLines {
    /// Makes a collection of lines for a log, if there is one.
    pub(crate) const fn new(log: Option<AccessLog>) -> Self {
        Self {
            log,
            lines: String::new(),
            count: 0,
        }
    }

    /// Appends the line of a closed pair.
    pub(crate) fn append<S, P>(
        &mut self,
        pair: &Pair<S, P>,
        info: &ClientInfo,
        reason: CloseReason,
        clock: Clock,
    ) {
        if self.log.is_none() {
            return;
        }
        let date = http_date(clock.unix_seconds);
        let date = str::from_utf8(&date).expect("a date is ASCII");
        let backend = pair.backend.as_deref().map_or("-", |backend| &backend.name);
        let seconds = clock.now.since(info.accepted).as_secs_f64();
        let written = writeln!(
            self.lines,
            "[{date}] client={} listener={} backend={backend} end={} seconds={seconds:.3} up={} \
             down={}",
            info.source,
            pair.frontend.address,
            reason.name(),
            pair.bytes_up,
            pair.bytes_down
        );
        written.expect("a string takes everything");
        self.count += 1;
    }

    /// Sends the turn's lines to the writer thread.
    pub(crate) fn flush(&mut self, counters: &WorkerCounters) {
        if self.count == 0 {
            return;
        }
        let lines = std::mem::take(&mut self.lines);
        let count = std::mem::take(&mut self.count);
        let Some(AccessLog(channel)) = &self.log else {
            return;
        };
        if channel.lines.try_send(lines).is_err() {
            counters.add(Metric::AccessLinesLost, count);
        }
        if channel.state.lost.load(Ordering::Relaxed) > 0 {
            let lost = channel.state.lost.swap(0, Ordering::Relaxed);
            counters.add(Metric::AccessLinesLost, lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// Disk whose script says how many bytes each call accepts, `None` for a full disk. After the
    /// script it accepts everything.
    #[derive(Clone, Default)]
    struct Disk {
        script: Arc<Mutex<Vec<Option<usize>>>>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = match self.script.lock().pop() {
                Some(None) => return Err(io::ErrorKind::StorageFull.into()),
                Some(Some(count)) => count.min(bytes.len()),
                None => bytes.len(),
            };
            self.written.lock().extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Disk {
        fn text(&self) -> String {
            String::from_utf8(self.written.lock().clone()).expect("text")
        }
    }

    #[test]
    fn a_full_disk_loses_the_lines_that_it_did_not_take_and_no_others() {
        let disk = Disk::default();
        *disk.script.lock() = vec![None, Some(5)];
        let (log, thread) = AccessLog::start(Box::new(disk.clone()), || unreachable!("not asked"))
            .expect("a thread");
        let Channel { lines, state } = &*log.0;
        for batch in ["one\ntwo\nthree\n", "four\n"] {
            lines.send(batch.to_owned()).expect("it listens");
        }
        let state = Arc::clone(state);
        drop(log);
        thread.join().expect("it ends");
        assert_eq!(disk.text(), "one\nt\nfour\n");
        assert_eq!(state.lost.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_log_that_is_opened_again_goes_on_in_the_new_file() {
        let (old, new) = (Disk::default(), Disk::default());
        let opened = new.clone();
        let open = move || Ok(Box::new(opened.clone()) as AccessOutput);
        let (log, thread) = AccessLog::start(Box::new(old.clone()), open).expect("a thread");
        let reopener = log.reopener();
        let write = |line: &str| log.0.lines.send(line.to_owned()).expect("it listens");
        write("one\n");
        while old.text().is_empty() {
            thread::yield_now();
        }
        reopener.reopen();
        write("two\n");
        drop(log);
        thread
            .join()
            .expect("it ends, though somebody may ask for another file");
        assert_eq!(
            (old.text(), new.text()),
            ("one\n".to_owned(), "two\n".to_owned())
        );
    }
}
