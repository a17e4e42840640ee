//! `encke cluster`: shows a cluster, drains a node, or imports a graph into a new cluster.

mod import;
mod status;
mod drain;

use clap::{Args, Subcommand};
use cli::failure::Failure;

pub(crate) const HELP: &str = "\
A cluster is several `encke serve --cluster` on one log, which NATS JetStream keeps; docs/CLUSTER.md
says how to run one.

Examples:
  encke cluster status
  encke cluster drain n2 --control http://10.0.0.1:8001
  encke cluster import --data encke-data --cluster nats://10.0.0.1,10.0.0.2,10.0.0.3";

#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    pub(crate) verb: ClusterVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterVerb {
    /// Let a new cluster begin with the graph of a data directory
    #[command(after_help = import::HELP)]
    Import(Box<import::ImportArguments>),
    /// Show the nodes of a cluster and its log
    #[command(after_help = status::HELP)]
    Status(status::StatusArguments),
    /// Send the clients of a node to other nodes, and end it
    #[command(after_help = drain::HELP)]
    Drain(drain::DrainArguments),
}

/// Runs a subcommand.
pub(crate) fn run(arguments: &ClusterArguments) -> Result<(), Failure> {
    match &arguments.verb {
        ClusterVerb::Import(arguments) => import::run(arguments),
        ClusterVerb::Status(arguments) => status::run(arguments),
        ClusterVerb::Drain(arguments) => drain::run(arguments),
    }
}
