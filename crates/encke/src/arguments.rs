//! What can be said on the command line, and the help that says so.

mod manual;
mod top;
mod friends;
mod store;
mod flood;
mod drive;
mod record;
mod plot;
mod doctor;
mod prove;
pub(crate) mod proxy;
pub(crate) mod hello;

use std::env;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::config;
use crate::config::Secret;
use crate::failure::Failure;

pub(crate) use doctor::DoctorArguments;
pub(crate) use drive::{DriveArguments, Targets};
pub(crate) use flood::{FloodArguments, FloodTransport};
pub(crate) use friends::{FriendsArguments, FriendsVerb, GenerateArguments, LoadArguments};
pub(crate) use manual::{CompletionsArguments, ManArguments};
pub(crate) use plot::{PanelName, PlotArguments};
pub(crate) use prove::ProveArguments;
pub(crate) use record::RecordArguments;
pub(crate) use store::{
    BackupArguments, ExportArguments, PlaceArguments, ReadArguments, StoreArguments, StoreVerb,
};
pub(crate) use top::TopArguments;

/// Worker threads that a command may be given.
const WORKERS: RangeInclusive<i64> = 1..=router::WORKERS_MAX as i64;

/// A push server: publish an event about a subject, and everyone who subscribes to it and is
/// connected gets it at once.
#[derive(Debug, Parser)]
#[command(
    name = "encke",
    version,
    after_help = "Try it, in three terminals:\n  \
        encke serve\n  \
        encke listen rj\n  \
        encke publish rj \"hello\"\n\n\
        Exit codes: 0 done, 1 failed, 2 misused."
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
    /// Publish an event to everyone who subscribes to a subject
    #[command(after_help = PUBLISH_HELP)]
    Publish(PublishArguments),
    /// Send an event to the sessions of one id alone
    #[command(after_help = SEND_HELP)]
    Send(SendArguments),
    /// Print events as they come
    #[command(after_help = LISTEN_HELP)]
    Listen(ListenArguments),
    /// Subscribe an id to subjects
    #[command(after_help = SUBSCRIBE_HELP)]
    Subscribe(SubscribeArguments),
    /// End subscriptions
    #[command(after_help = "Example:\n  encke unsubscribe alice rj")]
    Unsubscribe(SubscribeArguments),
    /// Show the sessions of an id, or close them
    #[command(after_help = SESSIONS_HELP)]
    Sessions(SessionsArguments),
    /// Show what a running server is at, again and again
    #[command(after_help = top::HELP)]
    Top(TopArguments),
    /// Make graphs of friends, and load them
    #[command(after_help = friends::HELP)]
    Friends(FriendsArguments),
    /// Look at the graph of a data directory, write it out, copy it
    #[command(after_help = store::HELP)]
    Graph(StoreArguments),
    /// Open many streaming clients, keep them, and check what they get
    #[command(after_help = flood::HELP)]
    Flood(Box<FloodArguments>),
    /// Publish events at a rate, and say what became of them
    #[command(after_help = drive::HELP)]
    Drive(Box<DriveArguments>),
    /// Log what a process and its machine use
    #[command(after_help = record::HELP)]
    Record(RecordArguments),
    /// Draw what was logged
    #[command(after_help = plot::HELP)]
    Plot(PlotArguments),
    /// Say what stops so many connections on this machine, and what to do
    #[command(after_help = doctor::HELP)]
    Doctor(DoctorArguments),
    /// Run the whole experiment, a server and its users, and write a report
    #[command(after_help = prove::HELP)]
    Prove(ProveArguments),
    /// Pass TCP connections on to backends
    #[command(after_help = proxy::HELP)]
    Proxy(Box<proxy::ProxyArguments>),
    /// Answer every request alike: the floor under any server
    #[command(after_help = hello::HELP)]
    Hello(hello::HelloArguments),
    /// Print a script that completes commands and flags in a shell
    #[command(after_help = manual::COMPLETIONS_HELP)]
    Completions(CompletionsArguments),
    /// Print a manual page, or write all of them to a directory
    #[command(after_help = manual::MAN_HELP)]
    Man(ManArguments),
}

const SERVE_HELP: &str = "\
Every setting can also stand in the file, under the same name, and in the environment, as
ENCKE_LISTEN, ENCKE_CONTROL_TOKEN and so on. Flags beat the environment, which beats the file.
Times are written 500ms, 25s, 1m; sizes 65536, 64KiB, 1MiB.

SIGTERM and SIGINT end it gently: streams are told when to come back. A second one ends it at once.

Examples:
  encke serve
  encke serve --workers 64 --private-fds
  encke serve --listen 0.0.0.0:8000 --allow-anonymous
  encke serve --config encke.toml --check-config";

const PUBLISH_HELP: &str = "\
Examples:
  encke publish rj \"hello\"
  encke publish rj '{\"title\":\"Sky\"}' --json-data --type track
  tail -f app.log | encke publish log -";

const SEND_HELP: &str = "\
Example:
  encke send alice \"your order has left\"";

const LISTEN_HELP: &str = "\
Payloads go to standard output, or with --json whole events, one a line. What happens to the
connection goes to standard error.

Examples:
  encke listen rj
  encke listen alice bob --transport ndjson --json
  encke listen rj --count 1";

const SUBSCRIBE_HELP: &str = "\
The subscriber receives what is published about the subjects from the next event on.

Example:
  encke subscribe alice rj news";

const SESSIONS_HELP: &str = "\
Examples:
  encke sessions alice
  encke sessions alice --close";

/// Where the control listener is.
#[derive(Debug, Args)]
pub(crate) struct ControlArguments {
    /// The control listener, at http://HOST:PORT or https://HOST:PORT
    #[arg(
        long,
        value_name = "URL",
        env = "ENCKE_CONTROL",
        default_value = "http://127.0.0.1:8001"
    )]
    pub(crate) control: String,
    #[command(flatten)]
    token: TokenArguments,
}

/// What opens a control listener.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TokenArguments {
    /// Token of the control listener [env: ENCKE_CONTROL_TOKEN]
    #[arg(long, value_name = "TOKEN", conflicts_with = "control_token_file")]
    control_token: Option<String>,
    /// File that holds the token [env: ENCKE_CONTROL_TOKEN_FILE]
    #[arg(long, visible_alias = "token-file", value_name = "FILE")]
    control_token_file: Option<PathBuf>,
}

/// How a command reports.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Report {
    /// Report as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What an event is.
#[derive(Debug, Args)]
pub(crate) struct EventArguments {
    /// The payload; `-`, or nothing where standard input is not a terminal, publishes each line of
    /// standard input as an event
    pub(crate) payload: Option<String>,
    /// The event's type, which subscribers see
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// The payload is JSON, and subscribers get it as JSON
    #[arg(long)]
    pub(crate) json_data: bool,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct PublishArguments {
    /// Whom or what the event is about
    pub(crate) subject: String,
    #[command(flatten)]
    pub(crate) event: EventArguments,
}

#[derive(Debug, Args)]
pub(crate) struct SendArguments {
    /// Who receives it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) event: EventArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ListenArguments {
    /// Ids to log in as
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// The public listener
    #[arg(long, env = "ENCKE_URL", default_value = "http://127.0.0.1:8000")]
    pub(crate) url: String,
    /// How the events come
    #[arg(long, value_enum, default_value_t = Transport::Sse)]
    pub(crate) transport: Transport,
    /// Stop after so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// The transports that have events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// Server-Sent Events
    Sse,
    /// JSON, one event a line
    Ndjson,
    /// The wire of 2008: a chunk is a payload
    Test,
}

#[derive(Debug, Args)]
pub(crate) struct SubscribeArguments {
    /// Who receives
    pub(crate) subscriber: String,
    /// About whom or what
    #[arg(required = true, value_name = "SUBJECT")]
    pub(crate) subjects: Vec<String>,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsArguments {
    /// Whose sessions
    pub(crate) id: String,
    /// Log them out and close them
    #[arg(long)]
    pub(crate) close: bool,
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

/// The flags of `encke serve` that are no settings.
#[derive(Debug, Args)]
pub(crate) struct OwnServeArguments {
    /// Configuration file, in TOML
    #[arg(long, value_name = "FILE", env = "ENCKE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Say whether the configuration is right, and end
    #[arg(long)]
    pub(crate) check_config: bool,
    /// Print the effective configuration and where each value comes from, and end
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

impl ControlArguments {
    /// A client of the control listener.
    pub(crate) fn client(&self) -> Result<client::control_client::ControlClient, Failure> {
        let token = self.token()?;
        client::control_client::ControlClient::new(&self.control, token.as_deref())
            .map_err(Failure::misused)
    }

    /// The token from the flags, else from the environment.
    pub(crate) fn token(&self) -> Result<Option<String>, Failure> {
        let secret = self.token.secret().map_err(Failure::misused)?;
        Ok(secret.map(|secret| secret.reveal().to_owned()))
    }
}

impl TokenArguments {
    /// The token from the flags, else from the environment.
    ///
    /// # Errors
    ///
    /// A sentence, when there is one that cannot be used.
    pub(crate) fn secret(&self) -> Result<Option<Secret>, String> {
        self.find()
            .map_err(|needed| format!("the control token is not usable: {needed}"))
    }

    fn find(&self) -> Result<Option<Secret>, String> {
        if let Some(token) = &self.control_token {
            return Secret::parse(token).map(Some);
        }
        if let Some(path) = &self.control_token_file {
            return Secret::read(path).map(Some);
        }
        if let Some(token) = env::var_os("ENCKE_CONTROL_TOKEN") {
            return Secret::parse(&token.to_string_lossy()).map(Some);
        }
        env::var_os("ENCKE_CONTROL_TOKEN_FILE")
            .map(|path| Secret::read(Path::new(&path)))
            .transpose()
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
