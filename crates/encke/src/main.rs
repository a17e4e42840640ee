//! The `encke` command.
//!
//! Holds arguments, configuration, text and exit codes. All logic is in the libraries.

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
mod friends;
mod store;
mod cluster;
mod flood;
mod drive;
mod record;
mod plot;
mod doctor;
mod plan;
mod prove;
mod proxy;
mod hello;
mod manual;

// What the commands share.
mod arguments;
mod config;
mod epoch;
mod failure;
mod admin;
mod output;
mod ports_file;
mod signals;
mod progress;
mod units;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Verb};

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
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
        Verb::Friends(arguments) => friends::run(&arguments),
        Verb::Graph(arguments) => store::run(&arguments),
        Verb::Cluster(arguments) => cluster::run(&arguments),
        Verb::Flood(arguments) => flood::run(&arguments),
        Verb::Drive(arguments) => drive::run(&arguments),
        Verb::Record(arguments) => record::run(&arguments),
        Verb::Plot(arguments) => plot::run(&arguments),
        Verb::Plan(arguments) => plan::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Prove(arguments) => prove::run(&arguments),
        Verb::Proxy(arguments) => proxy::run(&arguments),
        Verb::Hello(arguments) => hello::run(&arguments),
        Verb::Completions(arguments) => manual::completions(&arguments),
        Verb::Man(arguments) => manual::man(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}
