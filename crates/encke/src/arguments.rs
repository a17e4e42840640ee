//! Command-line arguments and their help.

mod listen;
mod online;
mod identity;
mod top;
mod store;
mod cluster;
mod doctor;
mod plan;

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};
use cli::arguments::{ControlArguments, Report};
use cli::manual::{CompletionsArguments, ManArguments};

use crate::config;
pub(crate) use cluster::{
    ClusterArguments, ClusterVerb, DrainArguments, ImportArguments, StatusArguments,
};
pub(crate) use doctor::DoctorArguments;
pub(crate) use identity::{RevokeArguments, TicketArguments};
pub(crate) use listen::ListenArguments;
pub(crate) use online::OnlineArguments;
pub(crate) use plan::PlanArguments;
pub(crate) use store::{
    BackupArguments, CompactArguments, ExportArguments, ReadArguments, StoreArguments, StoreVerb,
};
pub(crate) use top::TopArguments;

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
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run the server
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArguments),
    /// Publish an event about a subject to all its subscribers
    #[command(after_help = PUBLISH_HELP)]
    Publish(PublishArguments),
    /// Send an event to the sessions of one id only
    #[command(after_help = SEND_HELP)]
    Send(SendArguments),
    /// Print events as they arrive
    #[command(after_help = listen::HELP)]
    Listen(ListenArguments),
    /// Subscribe an id to subjects
    #[command(after_help = SUBSCRIBE_HELP)]
    Subscribe(SubscribeArguments),
    /// Remove subscriptions
    #[command(after_help = "Example:\n  encke unsubscribe alice rj")]
    Unsubscribe(SubscribeArguments),
    /// List the sessions of an id, or close them
    #[command(after_help = SESSIONS_HELP)]
    Sessions(SessionsArguments),
    /// Explain whether an id would get what is published about another, and why
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArguments),
    /// Show which ids are online
    #[command(after_help = online::HELP)]
    Online(OnlineArguments),
    /// Issue a ticket, with which a client can read some ids
    #[command(after_help = identity::TICKET_HELP)]
    Ticket(TicketArguments),
    /// Revoke the tokens and tickets of an id, or one token
    #[command(after_help = identity::REVOKE_HELP)]
    Revoke(RevokeArguments),
    /// Show a live view of a running server
    #[command(after_help = top::HELP)]
    Top(TopArguments),
    /// Check, count, export, compact or back up the graph of a data directory
    #[command(after_help = store::HELP)]
    Graph(StoreArguments),
    /// Show a cluster, drain one of its nodes, or begin one with a graph
    #[command(after_help = cluster::HELP)]
    Cluster(ClusterArguments),
    /// Estimate what a number of users needs: memory, cores, network
    #[command(after_help = plan::HELP)]
    Plan(PlanArguments),
    /// Find what keeps this machine from holding many connections
    #[command(after_help = doctor::HELP)]
    Doctor(DoctorArguments),
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

const SERVE_HELP: &str = "\
Every setting can be a flag, an environment variable (ENCKE_LISTEN, ENCKE_CONTROL_TOKEN and so on)
or a key of the same name in the configuration file. Flags override variables, and variables
override the file. Times are written as 500ms, 25s or 1m; sizes as 65536, 64KiB or 1MiB.

On SIGHUP the server reads its configuration again and applies what it can without closing a stream;
docs/CONFIGURATION.md says which settings need a restart. A configuration that is not valid changes
nothing.

On SIGTERM or SIGINT the server tells its clients when to reconnect, and then ends. A second signal
ends it at once.

Examples:
  encke serve
  encke serve --workers 64 --private-fds
  encke serve --listen 0.0.0.0:8000 --jwt-key-file issuer.pem --host push.example.org
  encke serve --config encke.toml --check-config";

const PUBLISH_HELP: &str = "\
Examples:
  encke publish rj \"hello\"
  encke publish rj '{\"title\":\"Sky\"}' --json-data --type track
  tail -f app.log | encke publish log -";

const SEND_HELP: &str = "\
Example:
  encke send alice \"your order was shipped\"";

const SUBSCRIBE_HELP: &str = "\
The subscriber receives events about the subjects from the next one on.

Example:
  encke subscribe alice rj news";

const SESSIONS_HELP: &str = "\
Examples:
  encke sessions alice
  encke sessions alice --close";

const EXPLAIN_HELP: &str = "\
Examples:
  encke explain rj alice          # would alice get what is published about rj now?
  encke explain rj alice --json";

/// Payload and type of an event.
#[derive(Debug, Args)]
pub(crate) struct EventArguments {
    /// The payload. `-` publishes each line of standard input as an event, and so does no payload
    /// if standard input is not a terminal
    pub(crate) payload: Option<String>,
    /// Type of the event, which subscribers receive with it
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// Publish the payload as JSON
    #[arg(long)]
    pub(crate) json_data: bool,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct PublishArguments {
    /// Id of the subject
    pub(crate) subject: String,
    #[command(flatten)]
    pub(crate) event: EventArguments,
}

#[derive(Debug, Args)]
pub(crate) struct SendArguments {
    /// Id that receives the event
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) event: EventArguments,
}

#[derive(Debug, Args)]
pub(crate) struct SubscribeArguments {
    /// Id that receives the events
    pub(crate) subscriber: String,
    /// Ids that the events are about
    #[arg(required = true, value_name = "SUBJECT")]
    pub(crate) subjects: Vec<String>,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsArguments {
    /// Id whose sessions to list
    pub(crate) id: String,
    /// Close the sessions
    #[arg(long)]
    pub(crate) close: bool,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// Id that an event would be about
    pub(crate) subject: String,
    /// Id that may get it
    pub(crate) subscriber: String,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// `encke serve`: its settings come from the table of the configuration.
#[derive(Debug)]
pub(crate) struct ServeArguments {
    /// The flags that are settings.
    pub(crate) settings: ArgMatches,
    pub(crate) own: OwnServeArguments,
}

/// Flags of `encke serve` that are not settings.
#[derive(Debug, Args)]
pub(crate) struct OwnServeArguments {
    /// Configuration file, in TOML
    #[arg(long, value_name = "FILE", env = "ENCKE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Check the configuration and exit
    #[arg(long)]
    pub(crate) check_config: bool,
    /// Print the effective configuration with the source of each value, and exit
    #[arg(long)]
    pub(crate) print_config: bool,
}

impl Args for ServeArguments {
    fn augment_args(command: Command) -> Command {
        OwnServeArguments::augment_args(config::add_flags(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            settings: matches.clone(),
            own: OwnServeArguments::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

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
