//! Floods of clients and the bare server, each in its own process.

use std::net::SocketAddr;

use serde::Deserialize;

use crate::child::Helper;
use crate::config::{BenchConfig, PER_TABLE, tables_for};
use load::flood::order::Sequence;
use load::flood::owed::Judgement;
use load::flood::recovery::{Recovery, Resets};
use load::latency::Latency;
use machine::failure::{Context, Failure, Outcome};

/// Default id of each client: its number.
pub const OWN_NUMBER: &str = "{n}";

/// Time limit for a flood to open, in seconds.
const OPEN_SECONDS: u64 = 600;

/// Which of several floods. Each has its own source addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Clients of the server being measured.
    Server,
    /// Clients of the bare server.
    Bare,
    /// A few clients whose latency is measured.
    Witness,
    /// A second group of such clients.
    Member,
}

/// Answer of a flood: its counters.
#[derive(Debug, Clone, Deserialize)]
pub struct Seen {
    /// Whether the awaited state was reached.
    pub reached: bool,
    /// Seconds since the clients began to connect.
    pub seconds: f64,
    /// Streams opened.
    pub heads: u64,
    /// TLS handshakes completed.
    pub handshakes: u64,
    /// Those of them that resumed an earlier session.
    pub resumed: u64,
    /// Streams open at present.
    pub active: u64,
    /// Streams that ended.
    pub closed: u64,
    /// Events read.
    pub events: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Failures, as sentences.
    #[serde(rename = "troubles")]
    pub failures: Vec<String>,
    /// Time from an event's due time to its arrival.
    pub latency: Latency,
    /// Times that reconnecting clients were without a stream.
    pub absence: Latency,
    /// Check by the publisher's numbers.
    pub numbers: Sequence,
    /// Check by event ids, for each stream separately.
    pub ids: Sequence,
    /// Counters of reconnecting clients.
    pub recovery: Recovery,
    /// Resets: the server said that events may be missing.
    pub resets: Resets,
    /// Result of the check of exact delivery, if asked for.
    pub judgement: Option<Judgement>,
}

impl Seen {
    /// Returns the number of events that came again or after a later one, according to numbers or
    /// ids.
    pub fn out_of_order(&self) -> u64 {
        let count = |check: &Sequence| check.reordered + check.duplicates;
        count(&self.numbers).max(count(&self.ids))
    }

    /// Explains why not all clients are connected.
    pub fn failure_text(&self) -> String {
        if self.failures.is_empty() {
            return "no client reported a reason; is the machine overloaded?".to_owned();
        }
        self.failures.join("; ")
    }
}

/// Flood of clients in its own process.
#[derive(Debug)]
pub struct Clients {
    helper: Helper,
    connections: u32,
}

impl Clients {
    /// Starts to open `connections` clients of `server`, numbered from `first`.
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
        // The bare server ignores ids.
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

    /// Starts to open `connections` clients of `url`, in which `{n}` is the client's number.
    /// `flags` are further arguments for the process.
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
        let mut arguments = [
            "compare",
            "clients",
            url,
            "--source",
            source,
            "--private-fds",
        ]
        .map(str::to_owned)
        .to_vec();
        for (flag, value) in [
            ("--connections", connections),
            ("--first", first),
            ("--threads", threads),
            ("--window", setting.window),
        ] {
            arguments.extend([flag.to_owned(), value.to_string()]);
        }
        arguments.extend_from_slice(flags);
        Self::of(&arguments, connections)
    }

    /// Starts this program with `arguments`, by which it opens `connections` clients and executes
    /// commands.
    pub(crate) fn of(arguments: &[String], connections: u32) -> Outcome<Self> {
        Ok(Self {
            helper: Helper::start(arguments)?,
            connections,
        })
    }

    /// Returns the number of clients.
    pub(crate) fn connections(&self) -> u32 {
        self.connections
    }

    /// Waits until all clients are open.
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
            "of {} clients, {} opened and {} of those were closed: {}",
            self.connections,
            seen.heads,
            seen.closed,
            seen.failure_text()
        )))
    }

    /// Waits until `events` events have arrived in total.
    ///
    /// # Errors
    ///
    /// When fewer than `events` have been read after `seconds`, or the helper has ended.
    pub fn events(&mut self, events: u64, seconds: u64) -> Outcome<Seen> {
        let seen = self.await_events(events, seconds)?;
        if seen.reached {
            return Ok(seen);
        }
        Err(Failure::new(format!(
            "after {seconds} s clients had read {} of {events} events ({} streams closed)",
            seen.events, seen.closed
        )))
    }

    /// Waits at most `seconds` until `events` events have arrived in total; `reached` tells whether
    /// they have.
    pub(crate) fn await_events(&mut self, events: u64, seconds: u64) -> Outcome<Seen> {
        self.ask(&format!("await events {events} {seconds}"))
    }

    /// Returns the counters so far.
    ///
    /// # Errors
    ///
    /// When the helper has ended.
    pub fn seen(&mut self) -> Outcome<Seen> {
        self.ask("stats")
    }

    /// Clears the recorded latencies.
    ///
    /// # Errors
    ///
    /// When the helper has ended.
    pub fn forget_latencies(&mut self) -> Outcome<Seen> {
        self.ask("forget")
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.helper.pid()
    }

    /// Closes all clients.
    pub fn quit(self) {
        self.helper.quit();
    }

    /// Sends a command of [`load::flood::driven`].
    pub(crate) fn ask(&mut self, line: &str) -> Outcome<Seen> {
        let answer = self.helper.ask(line)?;
        serde_json::from_value(answer).context("understanding the clients")
    }
}

/// Bare server in its own process.
#[derive(Debug)]
pub struct Bare {
    helper: Helper,
    /// Address that it listens on.
    pub address: SocketAddr,
}

impl Bare {
    /// Starts the bare server on a free address.
    ///
    /// # Errors
    ///
    /// When the process cannot be started, or does not listen.
    pub fn start(setting: &BenchConfig) -> Outcome<Self> {
        let address = machine::host::free_loopback_address()?;
        let (listen, workers) = (address.to_string(), setting.workers.to_string());
        let mut arguments = vec!["compare", "bare-hold", "--listen", &listen];
        arguments.extend(["--workers", &workers]);
        arguments.extend(setting.private_fds.then_some("--private-fds"));
        let mut helper = Helper::start(&arguments)?;
        helper.answer()?;
        Ok(Self { helper, address })
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.helper.pid()
    }

    /// Runs its send loop; returns the number of sends.
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

    /// Stops the server.
    pub fn quit(self) {
        self.helper.quit();
    }
}
