//! `encke cluster`: a cluster, looked at, with a node fewer, or begun with a graph.

mod import;
mod status;
mod drain;

use crate::arguments::{ClusterArguments, ClusterVerb};
use crate::failure::Failure;

/// Does what the second word asks for.
pub(crate) fn run(arguments: &ClusterArguments) -> Result<(), Failure> {
    match &arguments.verb {
        ClusterVerb::Import(arguments) => import::run(arguments),
        ClusterVerb::Status(arguments) => status::run(arguments),
        ClusterVerb::Drain(arguments) => drain::run(arguments),
    }
}
