//! Users: a flood in its own process, so that its memory and CPU time are not counted as the
//! server's.

use std::io::{self, BufRead, BufReader, PipeReader};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::options::Options;
use crate::child::Helper;
use crate::processes::Seen;
use client::decode::Transport;
use load::flood::order::{Check, IdRule};
use load::flood::recovery::{RecoveryOptions, SILENCE};
use load::flood::targets::Targets;
use load::flood::{self, driven};
use load::friends;
use machine::failure::{Context, Outcome};

/// Upper bound of the random time after which a user reconnects. It doubles after each failed
/// attempt.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// Process of the users.
#[derive(Debug)]
pub struct Clients(Helper);

impl Clients {
    /// Starts this program as `prove --clients-of URL`, which calls [`obey`].
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

    /// Returns the counters; `reached` tells whether all users are connected.
    pub(super) fn opening(&mut self) -> Outcome<Seen> {
        self.ask("await open 0")
    }

    /// Waits until `events` events have arrived, at most for `patience`.
    pub(super) fn arrived(&mut self, events: u64, patience: Duration) -> Outcome<Seen> {
        self.ask(&format!(
            "await events {events} {}",
            whole_seconds(patience)
        ))
    }

    /// Waits until each user has received exactly the events that the log lists for it, at most for
    /// `patience`.
    pub(super) fn owed(&mut self, log: &Path, patience: Duration) -> Outcome<Seen> {
        let seconds = whole_seconds(patience);
        self.ask(&format!("owed {} {seconds}", log.display()))
    }

    pub(super) fn seen(&mut self) -> Outcome<Seen> {
        self.ask("stats")
    }

    pub(super) fn quit(self) {
        self.0.quit();
    }

    fn ask(&mut self, line: &str) -> Outcome<Seen> {
        let answer = self.0.ask(line)?;
        serde_json::from_value(answer).context("understanding the clients")
    }
}

fn whole_seconds(patience: Duration) -> u64 {
    patience.as_secs().max(1)
}

/// Runs the users in their own process: executes commands from standard input until it ends.
///
/// # Errors
///
/// When the flood cannot be started, standard input cannot be read, or standard output cannot be
/// written.
pub fn obey(urls: &[String], connections: u32, users: &Users) -> Outcome<()> {
    let check = if users.degree.is_some() {
        // With a graph a user gets the events of many subjects, each with its own numbers.
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

/// Returns a reader of the edges of a graph, which are generated meanwhile.
fn edges(graph: friends::Options) -> Outcome<PipeReader> {
    let (reader, mut writer) = io::pipe().context("making a pipe for the graph")?;
    thread::Builder::new()
        .name("friends".to_owned())
        .spawn(move || {
            // If this fails, the reader gets an incomplete list.
            let _ = friends::write(graph, &mut writer, |_| true);
        })
        .context("starting the thread that makes the graph")?;
    Ok(reader)
}

/// Options of the users.
#[derive(Debug, Clone, Copy)]
pub struct Users {
    /// Friends that each new user makes, if there is a graph.
    pub degree: Option<u32>,
    /// Seed of the graph.
    pub seed: u64,
    /// Whether they reconnect when the server is lost.
    pub comes_back: bool,
}
