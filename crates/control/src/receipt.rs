//! What a publisher is told of its event.
//!
//! Must never say what is not known: a metric is there when it was counted.

use std::sync::Arc;

use replication::{Applied, CommandResult};
use router::{Accepted, Counts, EventId, Mailboxes, Router, Tally};
use serde::{Serialize, Serializer};
use tokio::time::timeout;

use crate::limits::RECEIPT_WAIT;
use crate::publish::When;

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
    /// After every worker has had its turn.
    pub(crate) fn full<M: Mailboxes>(
        router: &'a Router<M>,
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

    /// When the event has its place in line, and is in the history on disk if there is one.
    /// Sessions beyond a full mailbox have lost it already.
    pub(crate) fn early<M: Mailboxes>(
        router: &'a Router<M>,
        Accepted { sequence, audience }: Accepted,
        so_far: Counts,
        unstored: u64,
    ) -> Self {
        Self {
            id: router.event_id(sequence),
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

    /// When an event counts in the log of a cluster. `None` if `result` is not that of an event.
    pub(crate) fn of_nodes<M: Mailboxes>(
        router: &'a Router<M>,
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

    /// Returns it as the body of an answer.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are JSON")
    }
}

/// Whether there is nothing to say of a count.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
pub(crate) const fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn display<S: Serializer>(id: &EventId<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// Waits until nothing of a tally is pending; `None` when a worker does not get there in time.
pub(crate) async fn settled(tally: &Arc<Tally>) -> Option<Counts> {
    // The usual case without a timer: nobody online.
    if tally.pending() == 0 {
        return Some(tally.counts());
    }
    timeout(RECEIPT_WAIT, tally.done()).await.ok()
}

/// Waits until the history on disk has what was posted; `None` when the disk does not get there in
/// time.
pub(crate) async fn stored(tally: &Arc<Tally>) -> Option<()> {
    if tally.storing() == 0 {
        return Some(());
    }
    timeout(RECEIPT_WAIT, tally.stored()).await.ok()
}

/// The sentence for a receipt that does not come.
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
