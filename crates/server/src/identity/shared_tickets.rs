//! Tickets that several nodes share: news of them to other nodes, and from them.
//!
//! Must never know how news travel.

use std::sync::Arc;

use auth::tickets::{Hash, Holder};
use auth::{TicketError, UnixSeconds};
use graph::Id;
use router::SessionRef;

use crate::identity::IdentityStore;
use crate::mail::Handle;

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

impl IdentityStore {
    /// Tells other nodes, if there are any.
    pub(crate) fn announce(&self, news: impl FnOnce() -> TicketNews) {
        if let Some(announcer) = self.announcer.get() {
            announcer(news());
        }
    }
}

impl Handle {
    /// Sets who tells other nodes of the tickets that sessions of this one use. It is called on
    /// workers and must not block. Only the first call counts.
    pub fn announce_tickets_with(&self, announcer: Box<dyn Fn(TicketNews) + Send + Sync>) {
        let _ = self.identity.announcer.set(announcer);
    }

    /// Accepts a ticket that was issued on any node, until `until`.
    ///
    /// # Errors
    ///
    /// When there are too many tickets, or no id or too many.
    pub fn accept_ticket(
        &self,
        hash: Hash,
        ids: &[Id],
        issued: UnixSeconds,
        until: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<(), TicketError> {
        let ids = ids.iter().map(|id| id.to_string().into()).collect();
        let mut tickets = self.identity.tickets.lock();
        tickets.accept(hash, ids, issued, until, now)
    }

    /// Notes that a session of another node uses a ticket. The session of this node that had it
    /// ends.
    ///
    /// # Errors
    ///
    /// When there are too many tickets, or no id or too many.
    pub fn ticket_used_elsewhere(
        &self,
        hash: Hash,
        ids: &[Id],
        issued: UnixSeconds,
        holder: Holder,
        now: UnixSeconds,
    ) -> Result<(), TicketError> {
        let ids = ids.iter().map(|id| id.to_string().into()).collect();
        let mut tickets = self.identity.tickets.lock();
        let superseded = tickets.used_elsewhere(hash, ids, issued, holder, now)?;
        drop(tickets);
        if let Some(session) = superseded {
            self.close(&[SessionRef::from_bits(session)]);
        }
        Ok(())
    }

    /// Notes that the session of another node that used a ticket has ended.
    pub fn ticket_released_elsewhere(&self, hash: &Hash, holder: Holder, now: UnixSeconds) {
        let mut tickets = self.identity.tickets.lock();
        tickets.released_elsewhere(hash, holder, now);
    }

    /// Notes that other nodes have been told that a session of this one uses a ticket.
    pub fn ticket_announced(&self, hash: &Hash, session: u64) {
        self.identity.tickets.lock().announced(hash, session);
    }

    /// Notes that another node is gone: the tickets of its sessions are good for a reconnect.
    pub fn tickets_of_node_gone(&self, node: u64, now: UnixSeconds) {
        self.identity.tickets.lock().node_gone(node, now);
    }
}
