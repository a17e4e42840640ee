//! The users: a flood in a process of its own, so that its memory and time are not the server's.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;

use super::Options;
use crate::child::Helper;
use client::decode::Transport;
use load::flood::order::{Check, IdRule};
use load::flood::targets::Targets;
use load::flood::{self, driven};
use machine::failure::{Context, Outcome};

/// The users' process.
#[derive(Debug)]
pub struct Clients(Helper);

/// What users have seen up to now.
#[derive(Debug, Clone, Deserialize)]
pub struct ClientStats {
    /// Whether what was awaited came.
    pub reached: bool,
    /// Since they began to connect.
    pub seconds: f64,
    /// Streams opened.
    pub heads: u64,
    /// Connections that came to nothing.
    pub failed: u64,
    /// Streams that ended.
    pub closed: u64,
    /// Events read.
    pub events: u64,
    /// The check by the publisher's numbers.
    pub numbers: Numbers,
    /// What went wrong, as sentences.
    #[serde(rename = "troubles")]
    pub failures: Vec<String>,
    /// From when an event was due to its arrival.
    pub latency: Latency,
}

/// A check of numbers that are consecutive for each target.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Numbers {
    skipped: u64,
    filled: u64,
    /// Events that came after a later one.
    pub reordered: u64,
    /// Events that came again.
    pub duplicates: u64,
}

/// A distribution, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, serde::Serialize)]
pub struct Latency {
    /// Events that carried a stamp.
    pub count: u64,
    /// Half were faster.
    pub p50_us: f64,
    /// 9 of 10 were faster.
    pub p90_us: f64,
    /// 99 of 100 were faster.
    pub p99_us: f64,
    /// 999 of 1,000 were faster.
    pub p999_us: f64,
    /// 9,999 of 10,000 were faster.
    pub p9999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl Numbers {
    /// Events that never came.
    pub fn missing(&self) -> u64 {
        self.skipped - self.filled
    }
}

impl ClientStats {
    /// Why not all are connected.
    pub fn complaint(&self) -> String {
        if self.failures.is_empty() {
            return "no client says why; is the machine out of time?".to_owned();
        }
        self.failures.join("; ")
    }
}

impl Clients {
    /// Starts this program as `prove --clients-of URL`, which ends in [`obey`].
    pub(super) fn start(options: &Options, server: SocketAddr) -> Outcome<Self> {
        let url = format!("http://{server}/events/{{n}}");
        let mut arguments = ["prove", "--clients-of", &url, "--connections"]
            .map(str::to_owned)
            .to_vec();
        arguments.push(options.connections.to_string());
        if let Some(degree) = options.degree {
            arguments.extend(["--degree".to_owned(), degree.to_string()]);
        }
        Helper::start(&arguments).map(Self)
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Waits a while for all to be connected.
    pub(super) fn opening(&mut self, patience: Duration) -> Outcome<ClientStats> {
        self.ask(&format!("await open {}", whole_seconds(patience)))
    }

    /// Waits a while until so many events have come.
    pub(super) fn arrived(&mut self, events: u64, patience: Duration) -> Outcome<ClientStats> {
        self.ask(&format!(
            "await events {events} {}",
            whole_seconds(patience)
        ))
    }

    pub(super) fn seen(&mut self) -> Outcome<ClientStats> {
        self.ask("stats")
    }

    pub(super) fn quit(self) {
        self.0.quit();
    }

    fn ask(&mut self, line: &str) -> Outcome<ClientStats> {
        let answer = self.0.ask(line)?;
        serde_json::from_value(answer).context("understanding the clients")
    }
}

fn whole_seconds(patience: Duration) -> u64 {
    patience.as_secs().max(1)
}

/// The users themselves, in their process: they obey standard input until it ends.
///
/// # Errors
///
/// When the flood cannot be started, standard input cannot be read, or standard output cannot be
/// written.
pub fn obey(url: &str, connections: u32, mixed: bool) -> Outcome<()> {
    let check = if mixed {
        // A user of a graph gets the events of many subjects, each with numbers of its own.
        Check::NOTHING
    } else {
        Check {
            ids: IdRule::Ascending,
            numbers: true,
        }
    };
    let options = flood::Options {
        private_fds: true,
        check,
        ..flood::Options::new(
            Targets::one(url)?,
            url.to_owned(),
            connections,
            Transport::Sse,
        )
    };
    driven::run(&options, io::stdin().lock(), io::stdout().lock())
}
