//! Notifications of the server's observer about sessions of processes. Without an observer nothing
//! is looked up.

use graph::Id;
use reactor::SlotKey;
use router::Mailboxes;
use server::ObservedSession;

use super::Node;

/// Name of the transport of processes.
pub(super) const TRANSPORT: &str = "erlang";

/// The reason for the end of a session, with the names of the server's metric of closed
/// connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// The process has logged out or exited.
    Process,
    /// The connection to its node has ended.
    Node,
    /// The operator has closed it.
    Operator,
    /// The server is shutting down.
    Drain,
}

impl SessionEnd {
    const fn name(self) -> &'static str {
        match self {
            Self::Process => "peer",
            Self::Node => "reset",
            Self::Operator => "kicked",
            Self::Drain => "drain",
        }
    }
}

impl<M: Mailboxes> Node<M> {
    /// Notifies the observer that a process has logged in for the first time.
    pub(super) fn observe_login(&self, slot: SlotKey, id: &Id) {
        if let Some(observer) = &self.config.observer {
            let ids = std::slice::from_ref(id);
            observer.get().session_began(&self.observed(slot, ids));
        }
    }

    /// Notifies the observer of the end of a session. The session must not be logged out yet, as
    /// its ids might be removed then.
    pub(super) fn observe_logout(&mut self, slot: SlotKey, end: SessionEnd) {
        let Some(observer) = self.config.observer.clone() else {
            return;
        };
        let graph = self.router.graph();
        if let Some(session) = self.sessions.get(slot) {
            let keys = session.keys().iter();
            let ids: Vec<Id> = keys.filter_map(|&key| graph.name(key)).collect();
            let session = self.observed(slot, &ids);
            observer.get().session_ended(&session, end.name());
        }
    }

    /// Notifies the observer of the end of all sessions, when the server shuts down.
    pub(crate) fn observe_drain(&mut self) {
        if self.config.observer.is_none() {
            return;
        }
        for index in 0..self.sessions.slots() {
            if let Some((slot, _)) = self.sessions.at(index) {
                self.observe_logout(slot, SessionEnd::Drain);
            }
        }
    }

    const fn observed<'a>(&self, slot: SlotKey, ids: &'a [Id]) -> ObservedSession<'a> {
        ObservedSession {
            session: self.session_ref(slot),
            ids,
            transport: TRANSPORT,
            time: self.unix_seconds,
        }
    }
}
