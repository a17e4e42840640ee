//! `encke cluster`: shows a cluster, drains a node, or imports a graph into a new cluster.

mod import;
mod status;
mod drain;

use cli::failure::Failure;

use crate::arguments::{ClusterArguments, ClusterVerb};

/// Runs a subcommand.
pub(crate) fn run(arguments: &ClusterArguments) -> Result<(), Failure> {
    match &arguments.verb {
        ClusterVerb::Import(arguments) => import::run(arguments),
        ClusterVerb::Status(arguments) => status::run(arguments),
        ClusterVerb::Drain(arguments) => drain::run(arguments),
    }
}
