//! The `encke-lab` command: tools that load, measure and prove a push server.

// Commands, in the order of the help.
mod flood;
mod drive;
mod friends;
mod prove;
mod record;
mod plot;
mod compare;

// What they share.
mod server_program;
mod output_file;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use cli::manual::{self, CompletionsArguments, ManArguments};

use compare::CompareArguments;
use drive::arguments::DriveArguments;
use flood::arguments::FloodArguments;
use friends::FriendsArguments;
use plot::PlotArguments;
use prove::ProveArguments;
use record::RecordArguments;

/// Tools that load, measure and prove a push server.
#[derive(Debug, Parser)]
#[command(
    name = "encke-lab",
    version,
    after_help = "Try it, with `encke serve` in another terminal:\n  \
        encke-lab flood http://127.0.0.1:8000/events/{n} --connections 1000\n\n\
        Exit codes: 0 success, 1 failure, 2 wrong usage or configuration."
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Open many streaming clients and check what they receive
    #[command(after_help = flood::arguments::HELP)]
    Flood(Box<FloodArguments>),
    /// Publish events at a given rate and report the results
    #[command(after_help = drive::arguments::HELP)]
    Drive(Box<DriveArguments>),
    /// Generate a graph of friends, or load one
    #[command(after_help = friends::HELP)]
    Friends(FriendsArguments),
    /// Run the whole experiment, a server and its users, and write a report
    #[command(after_help = prove::HELP)]
    Prove(ProveArguments),
    /// Record what a process and its machine use
    #[command(after_help = record::HELP)]
    Record(RecordArguments),
    /// Plot a recording
    #[command(after_help = plot::HELP)]
    Plot(PlotArguments),
    /// Measure a server beside a minimal one or beside its peers
    #[command(after_help = compare::HELP)]
    Compare(CompareArguments),
    /// Print a script that completes commands and flags in a shell
    #[command(
        after_help = "Example:\n  encke-lab completions bash > /etc/bash_completion.d/encke-lab"
    )]
    Completions(CompletionsArguments),
    /// Print a manual page, or write all of them to a directory
    #[command(after_help = "Example:\n  encke-lab man flood | man -l -")]
    Man(ManArguments),
}

fn main() -> ExitCode {
    cli::conclude(match Arguments::parse().verb {
        Verb::Flood(arguments) => flood::run(&arguments),
        Verb::Drive(arguments) => drive::run(&arguments),
        Verb::Friends(arguments) => friends::run(&arguments),
        Verb::Prove(arguments) => prove::run(&arguments),
        Verb::Record(arguments) => record::run(&arguments),
        Verb::Plot(arguments) => plot::run(&arguments),
        Verb::Compare(arguments) => compare::run(arguments),
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
            let help = verb.get_after_help().map(ToString::to_string);
            let example = format!("encke-lab {}", verb.get_name());
            assert!(help.unwrap_or_default().contains(&example), "{example}");
        }
    }

    #[test]
    fn placeholders_are_not_taken_for_line_breaks() {
        let mut program = Arguments::command();
        let mut help = |verb: &str| {
            let verb = program.find_subcommand_mut(verb).expect("it is there");
            verb.render_long_help().to_string()
        };
        assert!(help("flood").contains("/events/{n} --connections 10000"));
        assert!(help("drive").contains("{n} its number"));
    }
}
