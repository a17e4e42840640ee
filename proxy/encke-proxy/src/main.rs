//! The `encke-proxy` command: a TCP proxy, and a hello-world server.

// Commands, in the order of the help.
mod tcp;
mod hello;

// What both share.
mod admin;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use cli::manual::{self, CompletionsArguments, ManArguments};

use hello::HelloArguments;
use tcp::arguments::ProxyArguments;

/// A TCP proxy with health checks, limits and latency, and a server that answers every request with
/// the same response.
#[derive(Debug, Parser)]
#[command(
    name = "encke-proxy",
    version,
    after_help = "Exit codes: 0 success, 1 failure, 2 wrong usage or configuration."
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Relay TCP connections to backends
    #[command(after_help = tcp::arguments::HELP)]
    Tcp(Box<ProxyArguments>),
    /// Answer every HTTP request with the same response
    #[command(after_help = hello::HELP)]
    Hello(HelloArguments),
    /// Print a script that completes commands and flags in a shell
    #[command(
        after_help = "Example:\n  encke-proxy completions bash > /etc/bash_completion.d/encke-proxy"
    )]
    Completions(CompletionsArguments),
    /// Print a manual page, or write all of them to a directory
    #[command(after_help = "Example:\n  encke-proxy man tcp | man -l -")]
    Man(ManArguments),
}

fn main() -> ExitCode {
    cli::conclude(match Arguments::parse().verb {
        Verb::Tcp(arguments) => tcp::run(&arguments),
        Verb::Hello(arguments) => hello::run(&arguments),
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
}
