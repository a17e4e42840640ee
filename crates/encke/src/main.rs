//! The `encke` command.
//!
//! Owns arguments, configuration, and the order in which the parts of the server start and stop.

// Commands, in the order of the help.
mod serve;
mod publish;
mod listen;
mod subscribe;
mod sessions;
mod explain;
mod online;
mod identity;
mod top;
mod store;
mod cluster;
mod doctor;
mod plan;

// What the commands share.
mod arguments;
mod config;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use cli::failure::Failure;
use cli::manual;

use arguments::{Arguments, Verb};

/// Commands that other programs have, with what replaces them.
const MOVED: [(&str, &str, &str); 8] = [
    ("flood", "encke-lab flood", "make lab"),
    ("drive", "encke-lab drive", "make lab"),
    ("friends", "encke-lab friends", "make lab"),
    ("prove", "encke-lab prove", "make lab"),
    ("record", "encke-lab record", "make lab"),
    ("plot", "encke-lab plot", "make lab"),
    ("proxy", "encke-proxy tcp", "make proxy"),
    ("hello", "encke-proxy hello", "make proxy"),
];

fn main() -> ExitCode {
    let first = std::env::args().nth(1).unwrap_or_default();
    if let Some((name, now, make)) = MOVED.iter().find(|(name, ..)| *name == first) {
        return cli::conclude(Err(Failure::misused(format_args!(
            "`encke {name}` is now `{now}`; `{make}` builds it"
        ))));
    }
    cli::conclude(match Arguments::parse().verb {
        Verb::Serve(arguments) => serve::run(&arguments),
        Verb::Publish(arguments) => publish::publish(&arguments),
        Verb::Send(arguments) => publish::send(&arguments),
        Verb::Listen(arguments) => listen::run(&arguments),
        Verb::Subscribe(arguments) => subscribe::subscribe(&arguments),
        Verb::Unsubscribe(arguments) => subscribe::unsubscribe(&arguments),
        Verb::Sessions(arguments) => sessions::run(&arguments),
        Verb::Explain(arguments) => explain::run(&arguments),
        Verb::Online(arguments) => online::run(&arguments),
        Verb::Ticket(arguments) => identity::ticket(&arguments),
        Verb::Revoke(arguments) => identity::revoke(&arguments),
        Verb::Top(arguments) => top::run(&arguments),
        Verb::Graph(arguments) => store::run(&arguments),
        Verb::Cluster(arguments) => cluster::run(&arguments),
        Verb::Plan(arguments) => plan::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Completions(arguments) => manual::completions(Arguments::command(), &arguments),
        Verb::Man(arguments) => manual::man(Arguments::command(), &arguments),
    })
}
