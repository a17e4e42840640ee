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
mod config;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use cli::failure::Failure;
use cli::manual::{self, CompletionsArguments, ManArguments};

/// A push server: publish an event about a subject, and every connected subscriber receives it at
/// once.
#[derive(Debug, Parser)]
#[command(
    name = "encke",
    version,
    after_help = "Try it, in three terminals:\n  \
        encke serve\n  \
        encke listen rj\n  \
        encke publish rj \"hello\"\n\n\
        Exit codes: 0 success, 1 failure, 2 wrong usage or configuration."
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the server
    #[command(after_help = serve::HELP)]
    Serve(serve::ServeArguments),
    /// Publish an event about a subject to all its subscribers
    #[command(after_help = publish::PUBLISH_HELP)]
    Publish(publish::PublishArguments),
    /// Send an event to the sessions of one id only
    #[command(after_help = publish::SEND_HELP)]
    Send(publish::SendArguments),
    /// Print events as they arrive
    #[command(after_help = listen::HELP)]
    Listen(listen::ListenArguments),
    /// Subscribe an id to subjects
    #[command(after_help = subscribe::HELP)]
    Subscribe(subscribe::SubscribeArguments),
    /// Remove subscriptions
    #[command(after_help = "Example:\n  encke unsubscribe alice rj")]
    Unsubscribe(subscribe::SubscribeArguments),
    /// List the sessions of an id, or close them
    #[command(after_help = sessions::HELP)]
    Sessions(sessions::SessionsArguments),
    /// Explain whether an id would get what is published about another, and why
    #[command(after_help = explain::HELP)]
    Explain(explain::ExplainArguments),
    /// Show which ids are online
    #[command(after_help = online::HELP)]
    Online(online::OnlineArguments),
    /// Issue a ticket, with which a client can read some ids
    #[command(after_help = identity::TICKET_HELP)]
    Ticket(identity::TicketArguments),
    /// Revoke the tokens and tickets of an id, or one token
    #[command(after_help = identity::REVOKE_HELP)]
    Revoke(identity::RevokeArguments),
    /// Show a live view of a running server
    #[command(after_help = top::HELP)]
    Top(top::TopArguments),
    /// Check, count, export, compact or back up the graph of a data directory
    #[command(after_help = store::HELP)]
    Graph(store::StoreArguments),
    /// Show a cluster, drain one of its nodes, or begin one with a graph
    #[command(after_help = cluster::HELP)]
    Cluster(cluster::ClusterArguments),
    /// Estimate what a number of users needs: memory, cores, network
    #[command(after_help = plan::HELP)]
    Plan(plan::PlanArguments),
    /// Find what keeps this machine from holding many connections
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::DoctorArguments),
    /// Print a script that completes commands and flags in a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsArguments),
    /// Print a manual page, or write all of them to a directory
    #[command(after_help = MAN_HELP)]
    Man(ManArguments),
}

const COMPLETIONS_HELP: &str = "\
Examples:
  encke completions bash > /etc/bash_completion.d/encke
  encke completions zsh > ~/.zfunc/_encke              # with ~/.zfunc in $fpath
  encke completions fish > ~/.config/fish/completions/encke.fish";

const MAN_HELP: &str = "\
Examples:
  encke man publish | man -l -
  encke man --output /usr/local/share/man/man1";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        for verb in Arguments::command().get_subcommands() {
            let help = verb
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(help.contains("Example"), "{}", verb.get_name());
            assert!(
                help.contains(&format!("encke {}", verb.get_name())),
                "{}",
                verb.get_name()
            );
        }
    }
}
