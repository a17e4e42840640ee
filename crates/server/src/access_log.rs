//! Access log: a line for each request that was answered and each session that ended.
//!
//! Workers note entries in a bounded queue; another thread makes lines of them and writes them.
//! Must never wait for that thread, nor note a query, a header or a body: a token may be in it.

/// Lines of entries.
mod line;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use graph::Id;
use wire::head::{Method, Request};

use crate::limits::{ACCESS_LOG_BYTES_MAX, ACCESS_LOG_PATH_BYTES};
use crate::sync::{Condvar, Mutex};

/// One request or session.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessEntry {
    /// When it ended, in seconds since 1970.
    pub(crate) time: u64,
    /// The client, as trusted proxies name it; `None` if its socket was broken already.
    pub(crate) client: Option<IpAddr>,
    pub(crate) what: Accessed,
    /// Status of the answer; `None` if there was none.
    pub(crate) status: Option<u16>,
    /// Bytes that the client was sent; `None` if the kernel does not know any more.
    pub(crate) bytes: Option<u64>,
    /// How long it took.
    pub(crate) duration: Duration,
    /// Why a session ended.
    pub(crate) reason: Option<&'static str>,
}

/// What an entry is about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Accessed {
    /// A request that was answered at once, or a poll. `None` if it was not understood.
    Request(Option<LoggedRequest>),
    /// A session.
    Session {
        /// Name of the transport.
        transport: &'static str,
        /// The ids that it was logged in as at its end.
        ids: Vec<Id>,
    },
}

/// What an entry says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoggedRequest {
    method: &'static str,
    /// Without the query. At most [`ACCESS_LOG_PATH_BYTES`].
    path: Box<str>,
}

impl LoggedRequest {
    /// Returns what is logged of a request.
    pub(crate) fn of(request: &Request<'_>) -> Self {
        let path = request.path;
        let end = path.floor_char_boundary(ACCESS_LOG_PATH_BYTES);
        Self {
            method: match request.method {
                Method::Get => "GET",
                Method::Head => "HEAD",
                Method::Options => "OPTIONS",
                Method::Post => "POST",
                Method::Put => "PUT",
                Method::Delete => "DELETE",
                Method::Connect => "CONNECT",
                Method::Other => "other",
            },
            path: path[..end].into(),
        }
    }
}

impl AccessEntry {
    /// Returns about how many bytes the entry takes.
    fn weight(&self) -> usize {
        let more = match &self.what {
            Accessed::Request(None) => 0,
            Accessed::Request(Some(request)) => request.path.len(),
            Accessed::Session { ids, .. } => ids
                .iter()
                .map(|id| {
                    size_of::<Id>()
                        + match id {
                            Id::Integer(_) => 0,
                            Id::Text(text) => text.len(),
                        }
                })
                .sum(),
        };
        size_of::<Self>() + more
    }

    /// Appends the entry as a line: a JSON object, whatever a client has put into it.
    pub fn push_line(&self, out: &mut Vec<u8>) {
        line::push(self, out);
    }
}

/// Access log of a server. Shared by its workers and the thread that writes it.
#[derive(Debug, Clone, Default)]
pub struct AccessLog(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    filled: Condvar,
    written: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<AccessEntry>,
    bytes: usize,
    reopens: bool,
    is_ended: bool,
}

/// Counts of an access log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccessLogCounts {
    /// Lines that were written.
    pub written: u64,
    /// Lines that were dropped because too many waited.
    pub dropped: u64,
    /// Lines that could not be written.
    pub failed: u64,
}

/// What the writer is to do next.
#[derive(Debug, PartialEq)]
pub struct AccessWork {
    /// Entries to write, in the order of their ends.
    pub entries: Vec<AccessEntry>,
    /// Whether to open the file again afterwards.
    pub reopens: bool,
    /// Whether no more will come.
    pub is_last: bool,
}

impl AccessLog {
    /// Notes an entry, or drops it if too much waits for the writer.
    pub(crate) fn note(&self, entry: AccessEntry) {
        let weight = entry.weight();
        let mut state = self.0.state.lock();
        if state.is_ended || state.bytes + weight > ACCESS_LOG_BYTES_MAX {
            drop(state);
            self.0.dropped.fetch_add(1, Relaxed);
            return;
        }
        state.bytes += weight;
        state.waiting.push(entry);
        let is_first = state.waiting.len() == 1;
        drop(state);
        if is_first {
            self.0.filled.notify_one();
        }
    }

    /// Lets the writer open its file again, when what was noted before is written.
    pub fn reopen(&self) {
        self.0.state.lock().reopens = true;
        self.0.filled.notify_one();
    }

    /// Lets the writer end when what was noted before is written.
    pub fn end(&self) {
        self.0.state.lock().is_ended = true;
        self.0.filled.notify_one();
    }

    /// Waits for something to do. For the one writer.
    pub fn next(&self) -> AccessWork {
        let mut state = self.0.state.lock();
        while state.waiting.is_empty() && !state.reopens && !state.is_ended {
            self.0.filled.wait(&mut state);
        }
        state.bytes = 0;
        AccessWork {
            entries: std::mem::take(&mut state.waiting),
            reopens: std::mem::take(&mut state.reopens),
            is_last: state.is_ended,
        }
    }

    /// Counts lines that were written.
    pub fn wrote(&self, lines: u64) {
        self.0.written.fetch_add(lines, Relaxed);
    }

    /// Counts lines that could not be written.
    pub fn failed(&self, lines: u64) {
        self.0.failed.fetch_add(lines, Relaxed);
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> AccessLogCounts {
        AccessLogCounts {
            written: self.0.written.load(Relaxed),
            dropped: self.0.dropped.load(Relaxed),
            failed: self.0.failed.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str) -> AccessEntry {
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let request = wire::head::parse(head.as_bytes()).unwrap().unwrap();
        AccessEntry {
            time: 784_111_777,
            client: Some([192, 0, 2, 1].into()),
            what: Accessed::Request(Some(LoggedRequest::of(&request))),
            status: Some(404),
            bytes: Some(7),
            duration: Duration::ZERO,
            reason: None,
        }
    }

    #[test]
    fn what_the_writer_does_not_take_is_bounded_and_counted() {
        let log = AccessLog::default();
        let weight = entry("/").weight();
        let room = ACCESS_LOG_BYTES_MAX / weight;
        for _ in 0..room + 3 {
            log.note(entry("/"));
        }
        assert_eq!(log.counts().dropped, 3);
        assert_eq!(log.next().entries.len(), room);
        log.note(entry("/"));
        assert_eq!(log.counts().dropped, 3, "there is room again");
    }

    /// In whatever order workers and the writer take their steps.
    #[test]
    fn each_entry_is_taken_once_or_counted_as_dropped_and_the_writer_ends() {
        scheduled::check(2_000, || {
            let log = AccessLog::default();
            let lines = Arc::new((Mutex::new(0), Condvar::new()));
            let (noted, written) = (log.clone(), Arc::clone(&lines));
            let writer = scheduled::spawn(move || {
                loop {
                    let work = noted.next();
                    assert!(!work.entries.is_empty() || work.reopens || work.is_last);
                    *written.0.lock() += work.entries.len() as u64;
                    written.1.notify_one();
                    if work.is_last {
                        return;
                    }
                }
            });
            let worker = |_| {
                let log = log.clone();
                scheduled::spawn(move || (0..2).for_each(|_| log.note(entry("/"))))
            };
            let workers: Vec<_> = (0..2).map(worker).collect();
            log.reopen();
            let ends_early = scheduled::choose(2) == 0;
            if ends_early {
                log.end();
            }
            workers.into_iter().for_each(|it| it.join().unwrap());
            let mut written = lines.0.lock();
            while !ends_early && *written < 4 {
                lines.1.wait(&mut written);
            }
            drop(written);
            log.end();
            writer.join().unwrap();
            assert_eq!(*lines.0.lock() + log.counts().dropped, 4);
        });
    }

    #[test]
    fn the_file_is_opened_again_behind_what_was_noted_before_and_the_end_comes_last() {
        let log = AccessLog::default();
        log.note(entry("/a"));
        log.reopen();
        let work = log.next();
        assert_eq!(
            (work.entries.len(), work.reopens, work.is_last),
            (1, true, false)
        );
        log.note(entry("/b"));
        log.end();
        log.note(entry("/c"));
        let work = log.next();
        assert_eq!(
            (work.entries.len(), work.reopens, work.is_last),
            (1, false, true)
        );
        assert_eq!(log.counts().dropped, 1, "the end is the end");
    }

    #[test]
    fn a_query_is_not_noted_and_a_long_path_is_cut_between_characters() {
        let Accessed::Request(Some(request)) = entry("/events/a?access_token=secret").what else {
            panic!("a request")
        };
        assert_eq!(&*request.path, "/events/a");
        let long = format!("/{}", "a".repeat(3 * ACCESS_LOG_PATH_BYTES));
        let Accessed::Request(Some(request)) = entry(&long).what else {
            panic!("a request")
        };
        assert_eq!(request.path.len(), ACCESS_LOG_PATH_BYTES);
    }
}
