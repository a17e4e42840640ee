//! The access log: a line for each connection that asked for one, when it ends.
//!
//! A worker gathers the lines of a turn and hands them to a thread that writes them: no worker waits for
//! a disk. When that thread falls behind or cannot write, lines are lost, and counted; it goes on when it
//! can again.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use reactor::Tick;
use wire::response::http_date;

use crate::complaints::{Complaint, Complaints};
use crate::tcp::closing::CloseReason;
use crate::tcp::limits::ACCESS_BATCHES_WAITING;
use crate::tcp::pair::{Origin, Pair};
use crate::tcp::stats::{Metric, WorkerStats};

/// What lines are written to.
pub type AccessOutput = Box<dyn Write + Send>;

/// Where lines go. The thread that writes them ends when all clones are gone and all is written.
#[derive(Debug, Clone)]
pub struct AccessLog(Arc<Desk>);

/// Lets the log be opened again. Does not keep its thread from its end.
#[derive(Debug, Clone)]
pub struct AccessReopener(Weak<Desk>);

#[derive(Debug)]
struct Desk {
    lines: SyncSender<String>,
    shared: Arc<Shared>,
}

/// What those who have lines and the thread that writes them tell each other.
#[derive(Debug, Default)]
struct Shared {
    reopen: AtomicBool,
    /// Lines that could not be written, and that no worker has counted.
    lost: AtomicU64,
}

impl AccessLog {
    /// Starts a thread that writes lines to `out`, and to what `open` gives when the log is to be opened
    /// again.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn start(
        out: AccessOutput,
        open: impl FnMut() -> io::Result<AccessOutput> + Send + 'static,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (lines, receiver) = sync_channel(ACCESS_BATCHES_WAITING);
        let shared = Arc::new(Shared::default());
        let writer = Writer {
            open,
            out: Some(out),
            shared: Arc::clone(&shared),
            torn: false,
            started: Instant::now(),
            complaints: Complaints::default(),
        };
        let thread = thread::Builder::new()
            .name("encke-access".to_owned())
            .spawn(move || writer.run(&receiver))?;
        Ok((Self(Arc::new(Desk { lines, shared })), thread))
    }

    /// For who lets the log be opened again.
    pub fn reopener(&self) -> AccessReopener {
        AccessReopener(Arc::downgrade(&self.0))
    }
}

impl AccessReopener {
    /// Lets the log be opened again before another line is written: its file may have been renamed.
    pub fn reopen(&self) {
        if let Some(desk) = self.0.upgrade() {
            desk.shared.reopen.store(true, Ordering::Relaxed);
            // Wakes the writer; where lines wait it is awake.
            let _ = desk.lines.try_send(String::new());
        }
    }
}

/// The thread that writes.
struct Writer<O> {
    open: O,
    /// `None` when nobody reads any more.
    out: Option<AccessOutput>,
    shared: Arc<Shared>,
    /// Only a part of the last line was written.
    torn: bool,
    started: Instant,
    complaints: Complaints,
}

impl<O: FnMut() -> io::Result<AccessOutput>> Writer<O> {
    fn run(mut self, batches: &Receiver<String>) {
        for lines in batches {
            if self.shared.reopen.swap(false, Ordering::Relaxed) {
                self.reopen();
            }
            let mut rest = lines.as_bytes();
            if let Err(error) = self.write(&mut rest) {
                let lost = rest.iter().filter(|&&byte| byte == b'\n').count();
                self.shared.lost.fetch_add(lost as u64, Ordering::Relaxed);
                self.complain(&error);
            }
        }
    }

    /// Takes from `rest` what is written.
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
                "the access log cannot be opened again, and goes on where it was: {error}"
            ),
        }
    }

    fn complain(&mut self, error: &io::Error) {
        let now = Tick::default().after(self.started.elapsed());
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.complaints.note(now, Complaint::AccessLog, "", || {
                format!("lines of the access log are lost, as they cannot be written: {error}")
            });
        } else if self.out.take().is_some() {
            tracing::error!(
                "nobody reads the access log any more: its lines are lost until SIGHUP opens it again"
            );
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
        let Some(AccessLog(desk)) = &self.log else {
            return;
        };
        if desk.lines.try_send(lines).is_err() {
            stats.add(Metric::AccessLinesLost, count);
        }
        if desk.shared.lost.load(Ordering::Relaxed) > 0 {
            let lost = desk.shared.lost.swap(0, Ordering::Relaxed);
            stats.add(Metric::AccessLinesLost, lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// Takes what the script says, one entry a call; `None` is a full disk. Then it takes all.
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
        let Desk { lines, shared } = &*log.0;
        for batch in ["one\ntwo\nthree\n", "four\n"] {
            lines.send(batch.to_owned()).expect("it listens");
        }
        let shared = Arc::clone(shared);
        drop(log);
        thread.join().expect("it ends");
        assert_eq!(disk.text(), "one\nt\nfour\n");
        assert_eq!(shared.lost.load(Ordering::Relaxed), 2);
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
