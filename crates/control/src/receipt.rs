//! Receipts for publishers.
//!
//! Must never contain a count that is not known.

use std::sync::Arc;

use replication::{Applied, CommandResult};
use router::{Accepted, Counts, EventId, Router, Tally};
use serde::{Serialize, Serializer};
use server::Post;
use tokio::time::timeout;

use crate::limits::RECEIPT_WAIT;

/// When the answer is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// When every worker has had its turn.
    Full,
    /// When the event has its place in line.
    Early,
}

impl When {
    pub(crate) const WORDS: [(&'static str, Self); 2] =
        [("full", Self::Full), ("early", Self::Early)];
}

/// A receipt as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Receipt<'a> {
    #[serde(serialize_with = "display")]
    id: EventId<'a>,
    subscribers: u64,
    online: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shed: Option<u64>,
    /// Events that the history on disk does not have.
    #[serde(skip_serializing_if = "is_zero")]
    unstored: u64,
    /// Nodes whose counts these are, in a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<u32>,
    /// Names of the nodes whose counts are missing, in a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'a [Box<str>]>,
}

impl<'a> Receipt<'a> {
    /// Returns the receipt after all workers have handled the event.
    pub(crate) fn full(
        router: &'a Router<Post>,
        accepted: Accepted,
        Counts {
            written,
            queued,
            shed,
        }: Counts,
        unstored: u64,
    ) -> Self {
        Self {
            written: Some(written),
            queued: Some(queued),
            shed: Some(shed),
            ..Self::early(router, accepted, Counts::default(), unstored)
        }
    }

    /// Returns the receipt when the event has its position, and is in the history on disk if
    /// there is one. Sessions of workers with full mailboxes are counted as shed.
    pub(crate) fn early(
        router: &'a Router<Post>,
        Accepted { position, audience }: Accepted,
        so_far: Counts,
        unstored: u64,
    ) -> Self {
        Self {
            id: router.event_id(position),
            subscribers: audience.subscribers,
            online: audience.online,
            written: None,
            queued: None,
            shed: (so_far.shed != 0).then_some(so_far.shed),
            unstored,
            nodes: None,
            missing: None,
        }
    }

    /// Returns the receipt of an event in a cluster. `None` if `result` is not that of an event.
    pub(crate) fn of_nodes(
        router: &'a Router<Post>,
        applied: &'a Applied,
        result: &CommandResult,
        when: When,
    ) -> Option<Self> {
        let &CommandResult::Event {
            position,
            subscribers,
            online,
            written,
            queued,
            shed,
        } = result
        else {
            return None;
        };
        let counted = |count| (when == When::Full).then_some(count);
        Some(Self {
            id: router.event_id(position.number()),
            subscribers,
            online,
            written: counted(written),
            queued: counted(queued),
            shed: counted(shed).or((shed != 0).then_some(shed)),
            unstored: 0,
            nodes: Some(applied.nodes),
            missing: Some(&applied.missing),
        })
    }
}

impl Receipt<'_> {
    /// Returns the number of ids that were online.
    pub(crate) const fn online(&self) -> u64 {
        self.online
    }

    /// Returns the JSON of the receipt.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are JSON")
    }
}

/// Returns whether a count is zero, so that it is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(crate) const fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn display<S: Serializer>(id: &EventId<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// Waits until nothing of a tally is pending. Returns `None` if a worker takes too long.
pub(crate) async fn settled(tally: &Arc<Tally>) -> Option<Counts> {
    // No timer is needed in the usual case that nobody is online.
    if tally.pending() == 0 {
        return Some(tally.counts());
    }
    timeout(RECEIPT_WAIT, tally.done()).await.ok()
}

/// Waits until the events are in the history on disk. Returns `None` if the disk takes too long.
pub(crate) async fn stored(tally: &Arc<Tally>) -> Option<()> {
    if tally.storing() == 0 {
        return Some(());
    }
    timeout(RECEIPT_WAIT, tally.stored()).await.ok()
}

/// Returns the error text for a receipt that takes too long.
pub(crate) fn unsettled(tally: &Tally) -> String {
    if tally.storing() != 0 {
        return format!(
            "it was accepted, but after {} s the disk of --history-dir has not taken it, so there \
             is no receipt; see the log of the system",
            RECEIPT_WAIT.as_secs()
        );
    }
    format!(
        "it was accepted, but after {} s {} workers have not handled it yet, so there is no \
         receipt; in /v1/stats, look for a worker whose turns do not increase",
        RECEIPT_WAIT.as_secs(),
        tally.pending()
    )
}
