//! News of tickets that several nodes share.
//!
//! Must never know how news travel.

use std::sync::Arc;

use auth::UnixSeconds;
use auth::tickets::Hash;

/// What other nodes must know of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketNews {
    /// A session of this node uses it.
    Used {
        /// Its name.
        hash: Hash,
        /// The ids that it logs in as.
        ids: Arc<[Box<str>]>,
        /// When it was issued.
        issued: UnixSeconds,
        /// The session, by its name on this node.
        session: u64,
    },
    /// The session of this node that used it has ended.
    Released {
        /// Its name.
        hash: Hash,
        /// The session.
        session: u64,
    },
}

/// Tells other nodes. Called on workers: it must not block.
pub(crate) type TicketAnnouncer = dyn Fn(TicketNews) + Send + Sync;
