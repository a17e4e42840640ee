//! The users: a flood in a process of its own, so that its memory and time are not the server's.

use std::io::{self, BufRead, BufReader, PipeReader};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use super::Options;
use crate::child::Helper;
use client::decode::Transport;
use load::flood::order::{Check, IdRule};
use load::flood::owed::Judgement;
use load::flood::recovery::{Recovery, RecoveryOptions, Resets, SILENCE};
use load::flood::targets::Targets;
use load::flood::{self, driven};
use load::friends;
use machine::failure::{Context, Outcome};

/// Users whose server has gone come back at a random time up to this, twice as long after each
/// attempt that fails.
const BACK_WITHIN: Duration = Duration::from_secs(10);

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
    /// The check by event ids, of each stream by itself.
    pub ids: Numbers,
    /// What went wrong, as sentences.
    #[serde(rename = "troubles")]
    pub failures: Vec<String>,
    /// From when an event was due to its arrival.
    pub latency: Latency,
    /// Streams open now.
    pub active: u64,
    /// How long users that came back had no stream.
    pub absence: Latency,
    /// What users did that came back.
    pub recovery: Recovery,
    /// Times that the server said that events may be missing.
    pub resets: Resets,
    /// Whether users got what they were owed, if that was asked.
    pub judgement: Option<Judgement>,
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
    /// The fastest.
    pub min_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// Their standard deviation.
    pub stdev_us: f64,
    /// Half were faster.
    pub p50_us: f64,
    /// 9 of 10 were faster.
    pub p90_us: f64,
    /// 95 of 100 were faster.
    pub p95_us: f64,
    /// The mean of the fastest 95 of 100.
    pub p95_mean_us: f64,
    /// The standard deviation of these.
    pub p95_stdev_us: f64,
    /// 99 of 100 were faster.
    pub p99_us: f64,
    /// The mean of the fastest 99 of 100.
    pub p99_mean_us: f64,
    /// The standard deviation of these.
    pub p99_stdev_us: f64,
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
    /// Events that came again or after a later one, by the publisher's numbers or by their ids.
    pub fn out_of_order(&self) -> u64 {
        let count = |check: &Numbers| check.reordered + check.duplicates;
        count(&self.numbers).max(count(&self.ids))
    }

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
    pub(super) fn start(
        options: &Options,
        servers: impl Iterator<Item = SocketAddr>,
    ) -> Outcome<Self> {
        let mut arguments = vec!["prove".to_owned()];
        for server in servers {
            let url = format!("http://{server}/events/{{n}}");
            arguments.extend(["--clients-of".to_owned(), url]);
        }
        arguments.extend(["--connections".to_owned(), options.connections.to_string()]);
        if let Some(degree) = options.degree {
            let seed = options.seed.to_string();
            arguments.extend(["--degree".to_owned(), degree.to_string()]);
            arguments.extend(["--seed".to_owned(), seed]);
        }
        if options.restart || options.nodes.is_some() {
            arguments.push("--restart".to_owned());
        }
        Helper::start(&arguments).map(Self)
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Whether all are connected.
    pub(super) fn opening(&mut self) -> Outcome<ClientStats> {
        self.ask("await open 0")
    }

    /// Waits a while until so many events have come.
    pub(super) fn arrived(&mut self, events: u64, patience: Duration) -> Outcome<ClientStats> {
        self.ask(&format!(
            "await events {events} {}",
            whole_seconds(patience)
        ))
    }

    /// Waits a while until each user has got each event of the log once.
    pub(super) fn owed(&mut self, log: &Path, patience: Duration) -> Outcome<ClientStats> {
        let seconds = whole_seconds(patience);
        self.ask(&format!("owed {} {seconds}", log.display()))
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
pub fn obey(urls: &[String], connections: u32, users: &Users) -> Outcome<()> {
    let check = if users.degree.is_some() {
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
        recovery: users.comes_back.then_some(RecoveryOptions {
            cut_every: None,
            back_within: BACK_WITHIN,
            silence: SILENCE,
            seed: users.seed,
        }),
        ..flood::Options::new(
            Targets::nodes(urls.iter().map(String::as_str))?,
            urls.join(" "),
            connections,
            Transport::Sse,
        )
    };
    let friends = users.degree.map(|degree| {
        let graph = friends::Options {
            users: connections,
            degree,
            seed: users.seed,
        };
        move || Ok::<Box<dyn BufRead>, _>(Box::new(BufReader::new(edges(graph)?)))
    });
    driven::run(&options, friends, io::stdin().lock(), io::stdout().lock())
}

/// The edges of a graph, as they are generated.
fn edges(graph: friends::Options) -> Outcome<PipeReader> {
    let (reader, mut writer) = io::pipe().context("making a pipe for the graph")?;
    thread::Builder::new()
        .name("friends".to_owned())
        .spawn(move || {
            // The reader finds an edge missing if this fails.
            let _ = friends::write(graph, &mut writer, |_| true);
        })
        .context("starting the thread that makes the graph")?;
    Ok(reader)
}

/// What users are, beside many.
#[derive(Debug, Clone, Copy)]
pub struct Users {
    /// Friends that each new user makes, if there is a graph.
    pub degree: Option<u32>,
    /// Draws the graph.
    pub seed: u64,
    /// Whether they come back when the server goes.
    pub comes_back: bool,
}
