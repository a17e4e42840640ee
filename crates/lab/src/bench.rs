//! The figures: each module measures one group of them and returns a report.

pub mod memory;
pub mod connect;
pub mod fanout;
pub mod fairness;
pub mod publish;
pub mod changes;
pub mod flood;

use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use crate::child::{Helper, Server};
use crate::control_client::Control;
use crate::failure::{Doing, Failure, Outcome};
use crate::flood::order::Sequence;

/// A subject that no client logs in as.
pub const SUBJECT: u32 = 2_000_000_000;

/// Connections of one descriptor table: below a hard limit of 20,000 with room for the spread that
/// the kernel's hash leaves between listeners.
const PER_TABLE: u32 = 16_000;

/// What a flood may take to open, or to fail.
const OPEN_SECONDS: u64 = 600;

/// What all measurements need to know.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The server's program.
    pub server: PathBuf,
    /// Streaming clients.
    pub connections: u32,
    /// Workers of the server and of the bare one.
    pub workers: u32,
    /// Client threads.
    pub threads: u32,
    /// Unanswered clients at once.
    pub window: u32,
    /// Where in the server's statistics system calls are counted: JSON pointers; all numbers
    /// below them are summed.
    pub calls_pointers: Vec<String>,
    /// Whether the server and the bare one have a descriptor table for each worker.
    pub private_fds: bool,
    /// More arguments for the server.
    pub server_arguments: Vec<String>,
}

impl Setting {
    /// Starts the server.
    pub fn start_server(&self) -> Outcome<Server> {
        let mut arguments = vec!["--workers".to_owned(), self.workers.to_string()];
        arguments.extend(self.private_fds.then(|| "--private-fds".to_owned()));
        arguments.extend_from_slice(&self.server_arguments);
        Server::start(&self.server, &arguments)
    }
}

/// Threads, or workers, with a descriptor table each, that `connections` need.
pub fn tables_for(connections: u32) -> u32 {
    connections.div_ceil(PER_TABLE).clamp(2, 1024)
}

/// Which of several floods: each has source addresses of its own.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    /// The server under measurement.
    Server,
    /// The bare one.
    Bare,
    /// A few clients beside the many.
    Witness,
    /// A second few.
    Member,
}

/// What a flood answers.
#[derive(Debug, Clone, Deserialize)]
pub struct Seen {
    /// Whether what was awaited came.
    pub reached: bool,
    /// Since the flood began.
    pub seconds: f64,
    /// The clock when it answered.
    pub at_nanos: u64,
    /// Streams opened.
    pub heads: u64,
    /// Streams that ended.
    pub closed: u64,
    /// Events read.
    pub events: u64,
    /// Bytes read.
    pub bytes: u64,
    /// What went wrong, as sentences.
    pub troubles: Vec<String>,
    /// Latency of stamped events.
    pub latency: SeenLatency,
    /// The check by the publisher's numbers.
    pub numbers: Sequence,
    /// The check by event ids.
    pub ids: Sequence,
}

/// The latency part of [`Seen`].
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct SeenLatency {
    /// Stamped events.
    pub count: u64,
    /// Half were faster.
    pub p50_us: f64,
    /// 99 of 100 were faster.
    pub p99_us: f64,
    /// The slowest.
    pub max_us: f64,
}

/// A flood in a process of its own.
#[derive(Debug)]
pub struct Clients {
    helper: Helper,
    connections: u32,
}

impl Clients {
    /// Starts to open `connections` clients named `first` and up at `server`.
    pub fn start(
        setting: &Setting,
        side: Side,
        server: SocketAddr,
        first: u32,
        connections: u32,
    ) -> Outcome<Self> {
        let source = match side {
            Side::Server => "127.1.0.0/16",
            Side::Bare => "127.2.0.0/16",
            Side::Witness => "127.3.0.0/16",
            Side::Member => "127.4.0.0/16",
        };
        let threads = setting
            .threads
            .min(tables_for(connections).max(connections / PER_TABLE));
        let mut arguments: Vec<String> = vec![
            "clients".to_owned(),
            format!("http://{server}/events/{{n}}"),
        ];
        for (flag, value) in [
            ("--connections", connections.to_string()),
            ("--first", first.to_string()),
            ("--threads", threads.to_string()),
            ("--window", setting.window.to_string()),
            ("--source", source.to_owned()),
        ] {
            arguments.extend([flag.to_owned(), value]);
        }
        arguments.push("--private-fds".to_owned());
        Ok(Self {
            helper: Helper::start(&arguments)?,
            connections,
        })
    }

    /// Waits until all are open; a client that is not is a failure that says why.
    pub fn opened(&mut self) -> Outcome<Seen> {
        let seen = self.ask(&format!("await open {OPEN_SECONDS}"))?;
        if seen.heads == u64::from(self.connections) && seen.closed == 0 {
            return Ok(seen);
        }
        Err(Failure::new(format!(
            "of {} clients {} opened and {} of those were closed: {}",
            self.connections,
            seen.heads,
            seen.closed,
            if seen.troubles.is_empty() {
                "no client says why".to_owned()
            } else {
                seen.troubles.join("; ")
            }
        )))
    }

    /// Waits until `events` have come in all.
    pub fn events(&mut self, events: u64, seconds: u64) -> Outcome<Seen> {
        let seen = self.ask(&format!("await events {events} {seconds}"))?;
        if seen.reached {
            return Ok(seen);
        }
        Err(Failure::new(format!(
            "after {seconds} s clients had read {} of {events} events ({} streams closed)",
            seen.events, seen.closed
        )))
    }

    /// What they have seen up to now.
    pub fn seen(&mut self) -> Outcome<Seen> {
        self.ask("stats")
    }

    /// Forgets latencies.
    pub fn forget(&mut self) -> Outcome<Seen> {
        self.ask("forget")
    }

    /// Memory of the flood's process.
    pub fn pid(&self) -> u32 {
        self.helper.pid()
    }

    /// Closes all.
    pub fn quit(self) {
        self.helper.quit();
    }

    fn ask(&mut self, line: &str) -> Outcome<Seen> {
        let answer = self.helper.ask(line)?;
        serde_json::from_value(answer).doing("understanding the clients")
    }
}

/// The bare server in a process of its own.
#[derive(Debug)]
pub struct Bare {
    helper: Helper,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Bare {
    /// Starts it on a free address.
    pub fn start(setting: &Setting) -> Outcome<Self> {
        let address = crate::machine::free_address()?;
        let arguments = ["bare-hold", "--listen", &address.to_string(), "--workers"];
        let mut arguments: Vec<String> = arguments.map(str::to_owned).to_vec();
        arguments.push(setting.workers.to_string());
        arguments.extend(setting.private_fds.then(|| "--private-fds".to_owned()));
        let mut helper = Helper::start(&arguments)?;
        helper.answer()?;
        Ok(Self { helper, address })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.helper.pid()
    }

    /// Runs its send loop; how many sends the kernel took.
    pub fn send(&mut self, order: &str, rounds: u32, size: u32, rate: u32) -> Outcome<u64> {
        let answer = self
            .helper
            .ask(&format!("{order} {rounds} {size} {rate}"))?;
        match (answer["sends"].as_u64(), answer["blocked"].as_u64()) {
            (Some(sends), Some(0)) => Ok(sends),
            (Some(sends), Some(blocked)) => Err(Failure::new(format!(
                "the bare loop found {blocked} of {} sockets full: the clients do not keep up, so \
                 send fewer events a round",
                sends + blocked
            ))),
            _ => Err(Failure::new(format!("the bare server answered {answer}"))),
        }
    }

    /// Ends it.
    pub fn quit(self) {
        self.helper.quit();
    }
}

/// The sum of all numbers at or below each of `pointers` in `stats`; nothing when one has none.
pub fn counters(stats: &Value, pointers: &[String]) -> Option<f64> {
    pointers.iter().map(|pointer| counter(stats, pointer)).sum()
}

/// Publishes a batch of `body` and makes sure that each of its lines was taken.
pub fn publish_whole(control: &mut Control, body: &mut dyn Read) -> Outcome<()> {
    let summary = control.publish_batch(body)?;
    if counter(&summary, "/failed").unwrap_or(0.0) > 0.0 {
        return Err(Failure::new(format!(
            "the server refused lines of the batch: {summary}"
        )));
    }
    Ok(())
}

/// The sum of all numbers at or below `pointer` in `stats`; nothing when there are none.
pub fn counter(stats: &Value, pointer: &str) -> Option<f64> {
    fn sum(value: &Value) -> Option<f64> {
        match value {
            Value::Number(number) => number.as_f64(),
            Value::Array(items) => items
                .iter()
                .filter_map(sum)
                .reduce(|left, right| left + right),
            Value::Object(members) => members
                .values()
                .filter_map(sum)
                .reduce(|left, right| left + right),
            _ => None,
        }
    }
    sum(stats.pointer(pointer)?)
}

/// A body made line by line as it is read, so that a million lines need no memory.
pub struct Lines<F> {
    make: F,
    buffer: Vec<u8>,
    at: usize,
}

/// Bytes of lines made at once.
const LINES_BYTES: usize = 64 * 1024;

impl<F: FnMut(&mut Vec<u8>) -> bool> Lines<F> {
    /// Lines that `make` appends one by one, until it answers that there is none.
    pub fn new(make: F) -> Self {
        Self {
            make,
            buffer: Vec::new(),
            at: 0,
        }
    }
}

impl<F: FnMut(&mut Vec<u8>) -> bool> Read for Lines<F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
            while self.buffer.len() < LINES_BYTES && (self.make)(&mut self.buffer) {}
        }
        let count = out.len().min(self.buffer.len() - self.at);
        out[..count].copy_from_slice(&self.buffer[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Edges by which everyone from `first` on, `count` of them, subscribes to `subject`.
pub fn edges(first: u32, count: u32, subject: u32) -> impl Read {
    let mut subscribers = first..first + count;
    Lines::new(move |out| {
        subscribers.next().is_some_and(|subscriber| {
            out.extend_from_slice(format!("{subscriber} {subject}\n").as_bytes());
            true
        })
    })
}

/// A batch with one event about each of `subjects`.
pub fn batch(subjects: impl IntoIterator<Item = u32>, payload: &str) -> impl Read {
    let mut subjects = subjects.into_iter();
    Lines::new(move |out| {
        subjects.next().is_some_and(|subject| {
            out.extend_from_slice(
                format!("{{\"subject\":{subject},\"data\":\"{payload}\"}}\n").as_bytes(),
            );
            true
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_below_a_pointer_are_summed() {
        let stats = serde_json::json!({"calls": {"send": 3, "recv": [1, {"x": 2}], "note": "n"}});
        assert_eq!(counter(&stats, "/calls"), Some(6.0));
        assert_eq!(counter(&stats, "/calls/send"), Some(3.0));
        assert_eq!(counter(&stats, "/calls/note"), None);
        assert_eq!(counter(&stats, "/missing"), None);
        let pointers = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            counters(&stats, &pointers(&["/calls/send", "/calls/recv"])),
            Some(6.0)
        );
        assert_eq!(
            counters(&stats, &pointers(&["/calls/send", "/missing"])),
            None
        );
    }

    #[test]
    fn lines_are_made_as_they_are_read() {
        let mut text = String::new();
        edges(5, 3, 9).read_to_string(&mut text).unwrap();
        assert_eq!(text, "5 9\n6 9\n7 9\n");
        let mut text = String::new();
        batch([3, 1], "x").read_to_string(&mut text).unwrap();
        assert_eq!(
            text,
            "{\"subject\":3,\"data\":\"x\"}\n{\"subject\":1,\"data\":\"x\"}\n"
        );
        let mut long = Vec::new();
        batch(0..50_000, "payload").read_to_end(&mut long).unwrap();
        assert_eq!(long.iter().filter(|&&byte| byte == b'\n').count(), 50_000);
    }

    #[test]
    fn a_million_connections_are_63_tables() {
        assert_eq!(tables_for(1_000_000), 63);
        assert_eq!(tables_for(1), 2);
    }
}
