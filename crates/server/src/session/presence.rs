//! Who is online, for the sessions that asked.

use graph::Graph;
use reactor::SlotKey;

use super::Sessions;
use crate::presence::Presence;

impl Sessions {
    /// Returns who is online, if it is kept.
    pub(crate) fn presence(&self) -> Option<&Presence> {
        self.shared.presence.as_deref()
    }

    /// Returns the graph of subscriptions.
    pub(crate) fn graph(&self) -> &Graph {
        self.shared.router.graph()
    }

    /// Takes the sessions that need a snapshot of who is online, unless that is not known yet: then
    /// all sessions get one when it is.
    pub(crate) fn take_to_snapshot(&mut self) -> Vec<SlotKey> {
        let mut keys = std::mem::take(&mut self.to_snapshot);
        if self
            .presence()
            .is_none_or(|presence| !presence.is_settled())
        {
            keys.clear();
        }
        keys
    }
}
