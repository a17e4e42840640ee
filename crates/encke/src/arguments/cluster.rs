//! Arguments of `encke cluster`.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use cli::arguments::{ControlArguments, Report};

use crate::config;

pub(super) const HELP: &str = "\
A cluster is several `encke serve --cluster` on one log, which NATS JetStream keeps; docs/CLUSTER.md
says how to run one.

Examples:
  encke cluster status
  encke cluster drain n2 --control http://10.0.0.1:8001
  encke cluster import --data encke-data --cluster nats://10.0.0.1,10.0.0.2,10.0.0.3";

const IMPORT_HELP: &str = "\
Stop the server that uses the data directory first. The directory is only read; a copy of the graph
needs room in it for a moment. The cluster must be new: its log may have no entries. If the command
breaks off, run it again; no node starts before it is done. Then start the nodes, each with an empty
data directory. The settings of the cluster are those of `encke serve`, and may come from its
configuration file or its environment variables.

Examples:
  encke cluster import --data encke-data --cluster nats://10.0.0.1,10.0.0.2,10.0.0.3
  encke cluster import --config encke.toml --check";

const STATUS_HELP: &str = "\
Any node of the cluster can be asked. The exit code is 0 if the node that was asked is ready, has
heard of each node within the last 3 seconds, and the log has a leader and followers that keep up;
otherwise it is 1.

Examples:
  encke cluster status
  encke cluster status --control http://10.0.0.1:8001 --json";

const DRAIN_HELP: &str = "\
The node is no longer ready, tells its clients to reconnect, over its drain-spread, and ends, as it
does on SIGTERM. Any node of the cluster can be asked; the token needs the right `admin`. A node
that does not answer is not drained: if it is dead, its clients have gone elsewhere already. What
starts the node again, for example Kubernetes, should be told first.

Examples:
  encke cluster drain n2
  encke cluster drain n2 --control http://10.0.0.1:8001 --control-token-file token --no-wait";

#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    pub(crate) verb: ClusterVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterVerb {
    /// Let a new cluster begin with the graph of a data directory
    #[command(after_help = IMPORT_HELP)]
    Import(Box<ImportArguments>),
    /// Show the nodes of a cluster and its log
    #[command(after_help = STATUS_HELP)]
    Status(StatusArguments),
    /// Send the clients of a node to other nodes, and end it
    #[command(after_help = DRAIN_HELP)]
    Drain(DrainArguments),
}

/// `encke cluster import`: settings of the cluster come from the table of the configuration.
#[derive(Debug)]
pub(crate) struct ImportArguments {
    /// The flags that are settings.
    pub(crate) settings: ArgMatches,
    pub(crate) own: OwnImportArguments,
}

/// Flags of `encke cluster import` that are not settings.
#[derive(Debug, Args)]
pub(crate) struct OwnImportArguments {
    /// Configuration file of `encke serve`, in TOML
    #[arg(long, value_name = "FILE", env = "ENCKE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Check the graph, the engine and its log, and exit
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct DrainArguments {
    /// Name of the node
    pub(crate) node: String,
    /// Do not wait until the node has ended
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

impl Args for ImportArguments {
    fn augment_args(command: Command) -> Command {
        OwnImportArguments::augment_args(config::add_import_flags(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ImportArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            settings: matches.clone(),
            own: OwnImportArguments::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
