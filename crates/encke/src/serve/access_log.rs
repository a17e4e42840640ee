//! Writer of the access log: a thread that appends lines to a file, or writes them to standard
//! output.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};

use cli::failure::Failure;
use server::{AccessLog, AccessWork};

/// Name of standard output among the values of `--access-log`.
const STANDARD_OUTPUT: &str = "-";

/// Access log with the thread that writes it. When it is dropped, the thread writes the last lines
/// and ends.
pub(super) struct AccessLogWriter {
    log: AccessLog,
    thread: Option<JoinHandle<()>>,
}

impl AccessLogWriter {
    /// Opens the file and starts the thread. Without a path, returns `None`.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened for appending.
    pub(super) fn start(path: Option<&Path>) -> Result<Option<Self>, Failure> {
        let Some(path) = path else {
            return Ok(None);
        };
        let log = AccessLog::default();
        let mut sink = Sink::open(path).map_err(|error| {
            let path = path.display();
            Failure::failed(format_args!(
                "the access log {path} cannot be opened: {error}; create its directory, and let \
                 the server write there"
            ))
        })?;
        let source = log.clone();
        let thread = Builder::new()
            .name("encke-access".to_owned())
            .spawn(move || sink.write_all_of(&source))
            .map_err(Failure::failed)?;
        Ok(Some(Self {
            log,
            thread: Some(thread),
        }))
    }

    /// Returns the log, for the workers and for reloads.
    pub(super) const fn log(&self) -> &AccessLog {
        &self.log
    }
}

impl Drop for AccessLogWriter {
    fn drop(&mut self) {
        self.log.end();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by the thread.
            let _ = thread.join();
        }
    }
}

/// Destination of lines.
enum Sink {
    StandardOutput,
    File(PathBuf, File),
}

impl Sink {
    fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new(STANDARD_OUTPUT) {
            return Ok(Self::StandardOutput);
        }
        Ok(Self::File(path.to_owned(), append_to(path)?))
    }

    /// Writes lines until the log ends. Errors are counted, and the first one in a row is logged.
    fn write_all_of(&mut self, log: &AccessLog) {
        let (mut lines, mut fails) = (Vec::new(), false);
        loop {
            let AccessWork {
                entries,
                reopens,
                is_last,
            } = log.next();
            lines.clear();
            for entry in &entries {
                entry.push_line(&mut lines);
            }
            match self.write(&lines) {
                Ok(()) => {
                    log.wrote(entries.len() as u64);
                    fails = false;
                }
                Err(error) => {
                    log.failed(entries.len() as u64);
                    if !fails {
                        tracing::error!("the access log cannot be written: {error}");
                    }
                    fails = true;
                }
            }
            if reopens {
                self.reopen();
            }
            if is_last {
                return;
            }
        }
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::StandardOutput => {
                let mut out = io::stdout().lock();
                out.write_all(lines)?;
                out.flush()
            }
            Self::File(_, file) => file.write_all(lines),
        }
    }

    /// Opens the file again, after another program has moved it away. If that fails, lines are
    /// still written to the old one.
    fn reopen(&mut self) {
        let Self::File(path, file) = self else {
            return;
        };
        match append_to(path) {
            Ok(newer) => *file = newer,
            Err(error) => {
                let path = path.display();
                tracing::error!("the access log {path} cannot be opened again: {error}");
            }
        }
    }
}

/// Opens a file for appending. A new file is readable by its owner and group only, because it says
/// who is subscribed to what.
fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o640)
        .open(path)
}
