//! Users: a flood in its own process, so that its memory and CPU time are not counted as the
//! server's.

use std::io::{self, BufRead, BufReader, PipeReader};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use super::options::Options;
use crate::processes::Clients;
use client::decode::Transport;
use load::flood::order::Check;
use load::flood::recovery::{RecoveryOptions, SILENCE};
use load::flood::targets::Targets;
use load::flood::{self, driven};
use load::friends;
use machine::failure::{Context, Outcome};

/// Upper bound of the random time after which a user reconnects. It doubles after each failed
/// attempt.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// Starts this program as `prove --clients-of URL`, which calls [`obey`].
pub(super) fn start(
    options: &Options,
    servers: impl Iterator<Item = SocketAddr>,
) -> Outcome<Clients> {
    let mut arguments = vec!["prove".to_owned()];
    for server in servers {
        let url = format!("http://{server}/events/{{n}}");
        arguments.extend(["--clients-of".to_owned(), url]);
    }
    let connections = options.connections;
    arguments.extend(["--connections".to_owned(), connections.to_string()]);
    if let Some(degree) = options.degree {
        let seed = options.seed.to_string();
        arguments.extend(["--degree".to_owned(), degree.to_string()]);
        arguments.extend(["--seed".to_owned(), seed]);
    }
    if options.restart || options.nodes.is_some() {
        arguments.push("--restart".to_owned());
    }
    Clients::of(&arguments, connections)
}

/// Runs the users in their own process: executes commands from standard input until it ends.
///
/// # Errors
///
/// When the flood cannot be started, standard input cannot be read, or standard output cannot be
/// written.
pub fn obey(urls: &[String], options: &Options) -> Outcome<()> {
    let (connections, seed) = (options.connections, options.seed);
    // With a graph a user gets the events of many subjects, each with its own numbers.
    let check = match options.degree {
        Some(_) => Check::NOTHING,
        None => Check::default(),
    };
    let flood = flood::Options {
        private_fds: true,
        check,
        recovery: options.restart.then_some(RecoveryOptions {
            cut_every: None,
            back_within: BACK_WITHIN,
            silent_after: SILENCE,
            seed,
        }),
        ..flood::Options::new(
            Targets::nodes(urls.iter().map(String::as_str))?,
            urls.join(" "),
            connections,
            Transport::Sse,
        )
    };
    let friends = options.degree.map(|degree| {
        let users = connections;
        let graph = friends::Options {
            users,
            degree,
            seed,
        };
        move || Ok::<Box<dyn BufRead>, _>(Box::new(BufReader::new(edges(graph)?)))
    });
    driven::run(&flood, friends, io::stdin().lock(), io::stdout().lock())
}

/// Returns a reader of the edges of a graph, which are generated meanwhile.
fn edges(graph: friends::Options) -> Outcome<PipeReader> {
    let (reader, mut writer) = io::pipe().context("making a pipe for the graph")?;
    thread::Builder::new()
        .name("friends".to_owned())
        .spawn(move || {
            // If this fails, the reader gets an incomplete list.
            let _ = friends::write(graph, None, &mut writer, |_| true);
        })
        .context("starting the thread that makes the graph")?;
    Ok(reader)
}
