//! Changes of the graph, as they are asked for, and what became of them.
//!
//! Must never know keys: a change is in terms of ids until its turn comes.

use crate::error::GraphError;
use crate::id::Id;

/// One change of the graph. Made by whoever received the request, owned by the graph until its
/// answer is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The subscriber receives what is published about the subject from now on.
    Subscribe {
        /// Who receives.
        subscriber: Id,
        /// About whom or what.
        subject: Id,
    },
    /// The subscriber receives it no more.
    Unsubscribe {
        /// Who received.
        subscriber: Id,
        /// About whom or what.
        subject: Id,
    },
    /// `subjects`, each once, are all that the subscriber is subscribed to: what is missing is
    /// added, what is not among them removed, at once. The subscriber itself among them counts as
    /// unchanged, as everyone is subscribed to itself.
    Replace {
        /// Who receives.
        subscriber: Id,
        /// All subjects; none ends every subscription.
        subjects: Vec<Id>,
    },
    /// Every edge of the id ends, both ways. An id with very many edges loses them in slices, each
    /// of which is durable by itself; edges that others make between two slices may stay.
    Remove {
        /// Whom nothing shall lead to or from.
        id: Id,
    },
}

/// What a change did, in edges. All of it is durable when it is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effect {
    /// Edges that are new.
    pub added: usize,
    /// Edges that were there and are not any more.
    pub removed: usize,
    /// Edges that were already as asked.
    pub unchanged: usize,
}

/// What became of the changes of one submission, in their order. A change that failed did nothing.
pub type Answer = Vec<Result<Effect, GraphError>>;

impl Effect {
    pub(crate) const ADDED: Self = Self::of(1, 0, 0);
    pub(crate) const REMOVED: Self = Self::of(0, 1, 0);
    pub(crate) const UNCHANGED: Self = Self::of(0, 0, 1);

    const fn of(added: usize, removed: usize, unchanged: usize) -> Self {
        Self {
            added,
            removed,
            unchanged,
        }
    }

    /// Whether an edge came or went.
    pub const fn changed(&self) -> bool {
        self.added + self.removed > 0
    }
}

impl std::ops::AddAssign for Effect {
    fn add_assign(&mut self, other: Self) {
        self.added += other.added;
        self.removed += other.removed;
        self.unchanged += other.unchanged;
    }
}
