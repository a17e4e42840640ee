//! Tickets that several nodes share: what other nodes say of them.
//!
//! Each node keeps all tickets. The nodes read the same announcements in the same order, and the
//! last session that is announced has the ticket.

use std::sync::Arc;

use super::{
    ELSEWHERE_SECONDS, Hash, Holder, RECONNECT_SECONDS, State, Ticket, TicketError, Tickets,
};
use crate::time::UnixSeconds;

impl Tickets {
    /// Adds a ticket that was issued on any node, good until `until`. Does nothing if it is known.
    ///
    /// # Errors
    ///
    /// When there are too many tickets, or when there is no id or too many.
    pub fn accept(
        &mut self,
        hash: Hash,
        ids: Arc<[Box<str>]>,
        issued: UnixSeconds,
        until: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<(), TicketError> {
        if until <= now || self.by_hash.contains_key(&hash) {
            return Ok(());
        }
        let state = State::Waiting(until);
        let ticket = Ticket { ids, issued, state };
        self.add(hash, ticket, now)
    }

    /// Notes that a session of another node uses a ticket. Returns the session of this node that
    /// had it and must end now. If a session of this node uses it whose announcement has not been
    /// read yet, that one comes later and keeps the ticket.
    ///
    /// # Errors
    ///
    /// When the ticket is not known here and there are too many, or when there is no id or too
    /// many.
    pub fn used_elsewhere(
        &mut self,
        hash: Hash,
        ids: Arc<[Box<str>]>,
        issued: UnixSeconds,
        holder: Holder,
        now: UnixSeconds,
    ) -> Result<Option<u64>, TicketError> {
        let until = now.plus(ELSEWHERE_SECONDS);
        let state = State::Elsewhere { holder, until };
        let Some(ticket) = self.by_hash.get(&hash) else {
            let ticket = Ticket { ids, issued, state };
            return self.add(hash, ticket, now).map(|()| None);
        };
        let superseded = match ticket.state {
            State::Bound {
                is_announced: false,
                ..
            } => return Ok(None),
            State::Bound { session, .. } => Some(session),
            State::Waiting(_) | State::Elsewhere { .. } => None,
        };
        self.set_state(&hash, state);
        Ok(superseded)
    }

    /// Notes that the session of another node that used a ticket has ended. Does nothing if that
    /// session does not have it.
    pub fn released_elsewhere(&mut self, hash: &Hash, holder: Holder, now: UnixSeconds) {
        if let Some(ticket) = self.by_hash.get(hash)
            && let State::Elsewhere { holder: by, .. } = ticket.state
            && by == holder
        {
            self.set_state(hash, State::Waiting(now.plus(RECONNECT_SECONDS)));
        }
    }

    /// Notes that all nodes have read that this session of this node uses a ticket. Does nothing if
    /// it does not use it any more.
    pub fn announced(&mut self, hash: &Hash, session: u64) {
        if let Some(ticket) = self.by_hash.get_mut(hash)
            && let State::Bound {
                session: by,
                is_announced,
            } = &mut ticket.state
            && *by == session
        {
            *is_announced = true;
        }
    }

    /// Notes that another node is gone, and its sessions with it. Looks at all tickets.
    pub fn node_gone(&mut self, node: u64, now: UnixSeconds) {
        let end = now.plus(RECONNECT_SECONDS);
        let of_node = |(hash, ticket): (&Hash, &Ticket)| match ticket.state {
            State::Elsewhere { holder, until } if holder.node == node => Some((*hash, until)),
            _ => None,
        };
        let freed: Vec<(Hash, UnixSeconds)> = self.by_hash.iter().filter_map(of_node).collect();
        for (hash, until) in freed {
            self.set_state(&hash, State::Waiting(until.min(end)));
        }
    }
}
