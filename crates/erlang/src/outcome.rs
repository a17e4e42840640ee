//! Outcomes that calls wait for.

use graph::GraphError;
use replication::AppendError;
use router::Counts;

/// The outcome that a call waits for.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The receipt of an event.
    Receipt(Counts),
    /// The result of all changes.
    Changes(Result<(), GraphError>),
    /// The log of the cluster has refused the event or some of the changes.
    NotLogged(AppendError),
}
