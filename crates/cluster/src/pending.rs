//! Results of commands that were applied, while the sessions of this node still get their events.

use std::sync::Arc;

use graph::{Effect, GraphError};
use replication::{CommandResult, EventCounts, Position};
use router::Tally;

/// Result of a command as soon as it is applied.
#[derive(Debug)]
pub enum Pending {
    /// An event that was posted to the sessions of this node.
    Event {
        /// Its position.
        position: Position,
        /// Subscribers of the subject, and the subject itself, at that position.
        subscribers: u64,
        /// Sessions of this node that it is for.
        online: u64,
        /// What becomes of it there, and of nothing else. `None` if it is for no session.
        tally: Option<Arc<Tally>>,
    },
    /// A change of the graph, which is made.
    Change(Result<Effect, GraphError>),
    /// A command that has no result.
    None,
}

impl Pending {
    /// Returns the result as far as it is known.
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

    /// Returns the result without counts of sessions, which every node adds.
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

    /// Returns the counts of this node, for the event at `index` of an entry; `None` if there is
    /// nothing to tell.
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

    /// Returns whether its counts are final.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::Event {
                tally: Some(tally), ..
            } => tally.pending() == 0,
            _ => true,
        }
    }

    /// Waits until the sessions have the event.
    pub(crate) async fn settle(&self) {
        if let Self::Event {
            tally: Some(tally), ..
        } = self
        {
            tally.done().await;
        }
    }
}
