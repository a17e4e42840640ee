//! What a publisher is told of its event.
//!
//! Must never say what is not known: a metric is there when it was counted.

use std::sync::Arc;

use router::{Accepted, Counts, EventId, Mailboxes, Router, Tally};
use serde::{Serialize, Serializer};
use tokio::time::timeout;

use crate::limits::RECEIPT_WAIT;

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
    ) -> Self {
        Self {
            written: Some(written),
            queued: Some(queued),
            shed: Some(shed),
            ..Self::early(router, accepted, Counts::default())
        }
    }

    /// When the event has its place in line. Sessions beyond a full mailbox have lost it already.
    pub(crate) fn early<M: Mailboxes>(
        router: &'a Router<M>,
        Accepted { sequence, audience }: Accepted,
        so_far: Counts,
    ) -> Self {
        Self {
            id: router.event_id(sequence),
            subscribers: audience.subscribers,
            online: audience.online,
            written: None,
            queued: None,
            shed: (so_far.shed != 0).then_some(so_far.shed),
        }
    }
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

/// The sentence for a receipt that does not come.
pub(crate) fn unsettled(tally: &Tally) -> String {
    format!(
        "it was accepted, but after {} s {} workers have not handled it yet, so there is no \
         receipt; in /v1/stats, look for a worker whose turns do not increase",
        RECEIPT_WAIT.as_secs(),
        tally.pending()
    )
}
