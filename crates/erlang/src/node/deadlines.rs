//! Work that is due at a certain time: ticks, timeouts, reconnections, sessions of disconnected
//! nodes.

use std::time::Duration;

use router::Mailboxes;

use super::observed::SessionEnd;
use super::{Effect, Node};
use crate::connections::ConnectionId;
use crate::limits::{
    DEADLINE_CHECK_INTERVAL, HANDSHAKE_TIME, SESSIONS_REAPED_PER_TURN, STALL_TIME,
};
use crate::login_check::LoginQuestions;
use crate::refusal::Refusal;

/// Ticks sent within the tick time, as in Erlang.
const TICKS_PER_TICK_TIME: u32 = 4;

impl<M: Mailboxes> Node<M> {
    /// Performs the work that is due.
    pub(crate) fn run_deadlines(&mut self) {
        let mut due = Vec::new();
        for (id, connection) in self.connections.iter() {
            let is_stalled = connection
                .stalled_since
                .is_some_and(|since| self.now.since(since) >= STALL_TIME);
            let refusal =
                if !connection.is_up && self.now.since(connection.opened_at) >= HANDSHAKE_TIME {
                    Some(Refusal::HandshakeSlow)
                } else if connection.is_up
                    && self.now.since(connection.last_received) >= self.config.tick_time
                    && !self.lists.is_waiting(id)
                {
                    Some(Refusal::Silent)
                } else if connection.is_up && is_stalled {
                    Some(Refusal::Slow)
                } else {
                    None
                };
            let is_to_tick = connection.is_up
                && self.now.since(connection.last_sent)
                    >= self.config.tick_time / TICKS_PER_TICK_TIME;
            if refusal.is_some() || is_to_tick {
                due.push((id, refusal));
            }
        }
        for (id, refusal) in due {
            match refusal {
                Some(refusal) => self.refuse_and_close(id, refusal),
                None => {
                    if let Some(connection) = self.connections.schedule_flush(id) {
                        connection.last_sent = self.now;
                        connection.send_buffer.tick();
                    }
                }
            }
        }
        self.end_stalled_lists();
        self.dial_permanent_peers();
        self.reap_sessions();
    }

    pub(super) fn refuse_and_close(&mut self, id: ConnectionId, refusal: Refusal) {
        let channel = self
            .connections
            .get_mut(id)
            .and_then(|connection| connection.channel.take());
        if let Some(channel) = channel {
            self.refuse(id, &channel, refusal);
        }
        self.ended(id);
    }

    fn dial_permanent_peers(&mut self) {
        for permanent in &mut self.permanent_peers {
            let name = permanent.name.as_str();
            if self.now < permanent.next || self.connections.find(name).is_some() {
                continue;
            }
            let connection = self.connections.dial(self.now, name, 0, true);
            let dial = Effect::Dial(connection, permanent.name.clone());
            self.effects.push(dial);
        }
    }

    /// Logs out sessions of disconnected nodes, of a bounded number of slots in each turn.
    fn reap_sessions(&mut self) {
        let Some(from) = self.reap_from else {
            return;
        };
        let slots = self.sessions.slots();
        let end = slots.min(from + SESSIONS_REAPED_PER_TURN);
        for index in from..end {
            if let Some((slot, session)) = self.sessions.at(index)
                && self.connections.get(session.process.connection).is_none()
            {
                self.end_session(slot, SessionEnd::Node);
            }
        }
        self.reap_from = (end < slots).then_some(end);
    }

    /// Whether there is work to do at once.
    pub(crate) fn is_busy(&self) -> bool {
        self.reap_from.is_some()
            || self.calls.has_completed()
            || self.logins.as_ref().is_some_and(LoginQuestions::has_work)
            || self.notices.has_work(&self.connections)
    }

    /// Returns how long the driver may wait for events; `None` if there is no deadline.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let is_idle = self.connections.len() == 0 && self.permanent_peers.is_empty();
        let logins = self.logins.as_ref();
        let due_in = logins.and_then(|logins| logins.due_in(self.now));
        (!is_idle)
            .then(|| {
                (self.config.tick_time / (4 * TICKS_PER_TICK_TIME)).min(DEADLINE_CHECK_INTERVAL)
            })
            .into_iter()
            .chain(due_in)
            .min()
    }
}
