//! Who is measured against whom: floods of clients and the bare server, each in a process of its
//! own.

use std::net::SocketAddr;

use serde::Deserialize;

use crate::child::Helper;
use crate::config::{BenchConfig, PER_TABLE, tables_for};
use load::flood::order::Sequence;
use machine::failure::{Context, Failure, Outcome};

/// The id of each client where nothing else is asked for: its number.
pub const OWN_NUMBER: &str = "{n}";

/// What a flood may take to open, or to fail.
const OPEN_SECONDS: u64 = 600;

/// Which of several floods: each has source addresses of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// TLS handshakes completed.
    pub handshakes: u64,
    /// Of these, those that resumed an earlier session.
    pub resumed: u64,
    /// Streams that ended.
    pub closed: u64,
    /// Events read.
    pub events: u64,
    /// Bytes read.
    pub bytes: u64,
    /// What went wrong, as sentences.
    #[serde(rename = "troubles")]
    pub failures: Vec<String>,
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
    ///
    /// # Errors
    ///
    /// When the process of the clients cannot be started.
    pub fn start(
        setting: &BenchConfig,
        side: Side,
        server: SocketAddr,
        first: u32,
        connections: u32,
    ) -> Outcome<Self> {
        // The bare server has one stream for all.
        let ids = match side {
            Side::Bare => OWN_NUMBER,
            Side::Server | Side::Witness | Side::Member => &setting.ids,
        };
        if setting.websocket && side != Side::Bare {
            let flags = ["--transport", "websocket"].map(str::to_owned);
            let url = format!("http://{server}/ws/{ids}");
            return Self::open(setting, side, &url, first, connections, &flags);
        }
        let url = format!("http://{server}/events/{ids}");
        Self::open(setting, side, &url, first, connections, &[])
    }

    /// Starts to open `connections` clients of `url`, in which `{n}` is the client's number, with
    /// more `flags`.
    ///
    /// # Errors
    ///
    /// When the process of the clients cannot be started.
    pub fn open(
        setting: &BenchConfig,
        side: Side,
        url: &str,
        first: u32,
        connections: u32,
        flags: &[String],
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
        let mut arguments: Vec<String> = vec!["clients".to_owned(), url.to_owned()];
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
        arguments.extend_from_slice(flags);
        Ok(Self {
            helper: Helper::start(&arguments)?,
            connections,
        })
    }

    /// Waits until all are open; a client that is not is a failure that says why.
    ///
    /// # Errors
    ///
    /// When a client has not opened its stream in time or was closed, or the helper has ended.
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
            if seen.failures.is_empty() {
                "no client says why".to_owned()
            } else {
                seen.failures.join("; ")
            }
        )))
    }

    /// Waits until `events` have come in all.
    ///
    /// # Errors
    ///
    /// When fewer than `events` have been read after `seconds`, or the helper has ended.
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
    ///
    /// # Errors
    ///
    /// When the helper has ended.
    pub fn seen(&mut self) -> Outcome<Seen> {
        self.ask("stats")
    }

    /// Forgets latencies.
    ///
    /// # Errors
    ///
    /// When the helper has ended.
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
        serde_json::from_value(answer).context("understanding the clients")
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
    ///
    /// # Errors
    ///
    /// When the process cannot be started, or does not listen.
    pub fn start(setting: &BenchConfig) -> Outcome<Self> {
        let address = machine::host::free_loopback_address()?;
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
    ///
    /// # Errors
    ///
    /// When a socket was full, which would spoil the measurement, or the helper has ended.
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
