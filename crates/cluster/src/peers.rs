//! State about the other nodes of the cluster.
//!
//! Owns receipts and membership. No entry depends on a message between nodes: if an answer is lost,
//! the receipt names the node as missing.

use std::sync::OnceLock;

use parking_lot::Mutex;
use replication::{Answer, Applied, Finished, Incarnation, Membership, Receipt, Receipts};
use tokio::sync::mpsc;

use crate::waiting::Waiting;

/// State about the other nodes. Shared by the threads and tasks of a node.
pub(crate) struct Peers {
    pub(crate) receipts: Mutex<Receipts<Vec<Finished<Waiting>>>>,
    pub(crate) membership: Mutex<Membership>,
    /// Incarnation of an earlier node with the same name, if there is one. Then this node must end.
    pub(crate) namesake: OnceLock<Incarnation>,
    /// Answers that wait to be sent to the writers of the entries.
    pub(crate) answers: mpsc::Sender<(Box<str>, Answer)>,
}

impl Peers {
    /// Records the answer of a node to an entry of this one.
    pub(crate) fn answer(&self, node: Incarnation, answer: Answer) {
        let receipt = self.receipts.lock().answer(node, answer);
        complete(receipt);
    }
}

/// Answers the appends of receipts that are complete or have expired. Call it without holding a
/// lock.
pub(crate) fn complete(receipts: impl IntoIterator<Item = Receipt<Vec<Finished<Waiting>>>>) {
    for receipt in receipts {
        for finished in receipt.token {
            let Finished {
                token,
                first,
                commands,
            } = finished;
            let own = receipt.results.iter().skip(first.index().into());
            token.finish(Applied {
                first,
                results: own.take(commands).cloned().collect(),
                nodes: receipt.nodes,
                missing: receipt.missing.clone(),
            });
        }
    }
}
