//! Changes of the graph, and their results.
//!
//! Must never know keys: a change is in terms of ids until its turn comes.

use crate::error::GraphError;
use crate::id::Id;

/// Change of the graph. Owned by the graph until it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The subscriber receives what is published about the subject from now on.
    Subscribe {
        /// Who receives.
        subscriber: Id,
        /// About whom or what.
        subject: Id,
    },
    /// The subscriber no longer receives what is published about the subject.
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
        /// The id that loses its edges.
        id: Id,
    },
}

/// Numbers of edges that a change affected. It is durable when it is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effect {
    /// Edges that are new.
    pub added: usize,
    /// Edges that were removed.
    pub removed: usize,
    /// Edges that were already as the change asks.
    pub unchanged: usize,
}

/// Results of the changes of one submission, in order. A change that failed changed nothing, except
/// a [`Change::Remove`] in slices.
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

    /// Returns whether an edge was added or removed.
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
