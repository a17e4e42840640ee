//! Tickets that several nodes share: news of them to other nodes, and from them.

use auth::tickets::{Hash, Holder};
use auth::{TicketError, UnixSeconds};
use graph::Id;
use router::SessionRef;

use super::Handle;
use crate::identity::TicketNews;

impl Handle {
    /// Sets who tells other nodes of the tickets that sessions of this one use. It is called on
    /// workers and must not block. Only the first call counts.
    pub fn announce_tickets_with(&self, announcer: Box<dyn Fn(TicketNews) + Send + Sync>) {
        let _ = self.shared.identity.announcer.set(announcer);
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
        let mut tickets = self.shared.identity.tickets.lock();
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
        let mut tickets = self.shared.identity.tickets.lock();
        let superseded = tickets.used_elsewhere(hash, ids, issued, holder, now)?;
        drop(tickets);
        if let Some(session) = superseded {
            self.close(&[SessionRef::from_bits(session)]);
        }
        Ok(())
    }

    /// Notes that the session of another node that used a ticket has ended.
    pub fn ticket_released_elsewhere(&self, hash: &Hash, holder: Holder, now: UnixSeconds) {
        let mut tickets = self.shared.identity.tickets.lock();
        tickets.released_elsewhere(hash, holder, now);
    }

    /// Notes that other nodes have been told that a session of this one uses a ticket.
    pub fn ticket_announced(&self, hash: &Hash, session: u64) {
        self.shared.identity.tickets.lock().announced(hash, session);
    }

    /// Notes that another node is gone: the tickets of its sessions are good for a reconnect.
    pub fn tickets_of_node_gone(&self, node: u64, now: UnixSeconds) {
        self.shared.identity.tickets.lock().node_gone(node, now);
    }
}
