//! Results of commands that were applied, while their events are still being delivered on this
//! node.

use std::sync::Arc;

use graph::{Effect, GraphError};
use replication::{CommandResult, EventCounts, Position};
use router::Tally;

/// Result of a command that was applied.
#[derive(Debug)]
pub enum Pending {
    /// An event that was posted to the sessions of this node.
    Event {
        /// Position of the event.
        position: Position,
        /// Number of subscribers at that position, including the subject itself.
        subscribers: u64,
        /// Number of sessions of this node that get it.
        online: u64,
        /// Counts of its deliveries on this node; `None` if no session gets it.
        tally: Option<Arc<Tally>>,
    },
    /// A change of the graph that was made.
    Change(Result<Effect, GraphError>),
    /// A command that has no result.
    None,
}

impl Pending {
    /// Returns the current result.
    pub(crate) fn so_far(&self) -> CommandResult {
        match self {
            Self::Event {
                position,
                subscribers,
                online,
                tally,
            } => {
                let counts = tally.as_ref().map(|tally| tally.counts());
                let counts = counts.unwrap_or_default();
                CommandResult::Event {
                    position: *position,
                    subscribers: *subscribers,
                    online: *online,
                    written: counts.written,
                    queued: counts.queued,
                    shed: counts.shed,
                }
            }
            Self::Change(result) => CommandResult::Change(result.clone()),
            Self::None => CommandResult::None,
        }
    }

    /// Returns the result without counts of sessions, as each node adds its own.
    pub(crate) fn without_counts(&self) -> CommandResult {
        match self {
            Self::Event {
                position,
                subscribers,
                ..
            } => CommandResult::Event {
                position: *position,
                subscribers: *subscribers,
                online: 0,
                written: 0,
                queued: 0,
                shed: 0,
            },
            _ => self.so_far(),
        }
    }

    /// Returns the counts of this node for the event at `index` of an entry; `None` if no session
    /// gets it.
    pub(crate) fn counts(&self, index: u16) -> Option<EventCounts> {
        let Self::Event {
            online,
            tally: Some(tally),
            ..
        } = self
        else {
            return None;
        };
        // No node has 2^32 sessions.
        let short = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let counts = tally.counts();
        Some(EventCounts {
            index,
            online: short(*online),
            written: short(counts.written),
            queued: short(counts.queued),
            shed: short(counts.shed),
        })
    }

    /// Returns whether it is an event.
    pub(crate) const fn is_event(&self) -> bool {
        matches!(self, Self::Event { .. })
    }

    /// Returns whether the counts are final.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::Event {
                tally: Some(tally), ..
            } => tally.pending() == 0,
            _ => true,
        }
    }

    /// Waits until the event is delivered to all sessions, queued or dropped.
    pub(crate) async fn settle(&self) {
        if let Self::Event {
            tally: Some(tally), ..
        } = self
        {
            tally.done().await;
        }
    }
}
