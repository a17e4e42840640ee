//! Floods of clients and the bare server, each in its own process.

use std::net::SocketAddr;

use crate::child::Helper;
use crate::config::{BenchConfig, PER_TABLE, tables_for};
use load::flood::driven::Answer;
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
    pub fn opened(&mut self) -> Outcome<Answer> {
        let seen = self.ask(&format!("await open {OPEN_SECONDS}"))?;
        if seen.totals.counts.heads == u64::from(self.connections) && seen.totals.closed == 0 {
            return Ok(seen);
        }
        Err(Failure::new(format!(
            "of {} clients, {} opened and {} of those were closed: {}",
            self.connections,
            seen.totals.counts.heads,
            seen.totals.closed,
            seen.totals.failure_text()
        )))
    }

    /// Waits until `events` events have arrived in total.
    ///
    /// # Errors
    ///
    /// When fewer than `events` have been read after `seconds`, or the helper has ended.
    pub fn events(&mut self, events: u64, seconds: u64) -> Outcome<Answer> {
        let seen = self.await_events(events, seconds)?;
        if seen.reached {
            return Ok(seen);
        }
        Err(Failure::new(format!(
            "after {seconds} s clients had read {} of {events} events ({} streams closed)",
            seen.totals.counts.events, seen.totals.closed
        )))
    }

    /// Waits at most `seconds` until `events` events have arrived in total; `reached` tells whether
    /// they have.
    pub(crate) fn await_events(&mut self, events: u64, seconds: u64) -> Outcome<Answer> {
        self.ask(&format!("await events {events} {seconds}"))
    }

    /// Returns the counters so far.
    ///
    /// # Errors
    ///
    /// When the helper has ended.
    pub fn seen(&mut self) -> Outcome<Answer> {
        self.ask("stats")
    }

    /// Clears the recorded latencies.
    ///
    /// # Errors
    ///
    /// When the helper has ended.
    pub fn forget_latencies(&mut self) -> Outcome<Answer> {
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
    pub(crate) fn ask(&mut self, line: &str) -> Outcome<Answer> {
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
