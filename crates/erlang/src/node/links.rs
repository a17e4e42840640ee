//! Monitors and links, by which this node and logged-in processes learn of each other's end.

use reactor::SlotKey;
use router::Mailboxes;

use super::Node;
use super::observed::SessionEnd;
use super::registered::RegisteredProcess;
use crate::answers::CallError;
use crate::connections::{ConnectionId, Process};
use crate::control;
use crate::term::Raw;

/// Options of a login.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoginOptions {
    /// The process is linked, so that it ends with this node, as with the router of 2008.
    pub(super) is_linked: bool,
    /// The process is notified of lost events.
    pub(super) hears_gaps: bool,
    /// The process is notified of the presence of the ids that it follows.
    pub(super) hears_presence: bool,
}

/// Change of the monitor and the link between `router` and a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchChange {
    /// Create them.
    Begin,
    /// Remove them.
    End,
    /// Remove the monitor, and end the process if it is linked.
    Kill,
}

impl LoginOptions {
    pub(super) fn read(options: Raw<'_>) -> Result<Self, CallError> {
        let unknown = "login takes a list of options: link, gap and presence";
        let mut read = Self::default();
        for option in options.elements().ok_or(unknown)? {
            match option.atom() {
                Some(option) if option.is("link") => read.is_linked = true,
                Some(option) if option.is("gap") => read.hears_gaps = true,
                Some(option) if option.is("presence") => read.hears_presence = true,
                _ => return Err(unknown.into()),
            }
        }
        Ok(read)
    }
}

impl<M: Mailboxes> Node<M> {
    /// Handles the end of a monitored process.
    pub(super) fn on_down(&mut self, connection: ConnectionId, reference: Raw<'_>) {
        if let Some(slot) = self.monitored(reference)
            && let Some(session) = self.sessions.get(slot)
            && session.process.connection == connection
        {
            self.end_session(slot, SessionEnd::Process);
        }
    }

    /// Asks the node of a process to change the monitor of its session, and the link if it has one.
    pub(super) fn watch(&mut self, slot: SlotKey, change: WatchChange) {
        let Some(session) = self.sessions.get(slot) else {
            return;
        };
        let (process, is_linked) = (session.process, session.is_linked);
        let router = RegisteredProcess::Router.pid(&self.config.me);
        // The reference encodes the key of the session. Erlang uses 18 bits of the first word.
        let words = [slot.index & 0x3_ffff, slot.generation, slot.index >> 18];
        let adds = change == WatchChange::Begin;
        self.connections.control_of(process, |out, pid| {
            control::monitor(out, adds, router, pid, words);
        });
        if is_linked {
            self.link(process, change);
        }
    }

    /// Watches the processes that logged in before their node was connected.
    pub(super) fn watch_sessions_of(&mut self, connection: ConnectionId) {
        for slot in self.sessions.of(connection) {
            self.watch(slot, WatchChange::Begin);
        }
    }

    /// Changes the link between router and a process. A linked process ends when this node is gone.
    pub(super) fn link(&mut self, process: Process, change: WatchChange) {
        let router = RegisteredProcess::Router.pid(&self.config.me);
        self.connections
            .control_of(process, |out, pid| match change {
                WatchChange::Begin => control::link(out, router, pid),
                WatchChange::End => control::unlink(out, router, pid),
                WatchChange::Kill => control::exit(out, router, pid, "closed"),
            });
    }

    /// Returns the session of a monitor's reference.
    fn monitored(&self, reference: Raw<'_>) -> Option<SlotKey> {
        let mut words = self.config.me.own_words(reference)?;
        let (low, generation, high) = (words.next()?, words.next()?, words.next()?);
        Some(SlotKey {
            index: low | high << 18,
            generation,
        })
    }
}
