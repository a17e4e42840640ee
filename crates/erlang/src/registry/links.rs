//! Monitors and links, by which this node and logged-in processes learn of each other's end.

use ::router::Mailboxes;
use reactor::SlotKey;

use super::observed::SessionEnd;
use super::{ErrorText, ProcessRegistry, RegisteredProcess};
use crate::connections::{ConnectionId, Connections};
use crate::control::{self, MonitorRequest};
use crate::sessions::Process;
use crate::term::{Atom, Raw, Term, write};

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

/// Request about the link of a process.
#[derive(Debug, Clone, Copy)]
pub(super) enum LinkRequest {
    /// Create the link.
    Add,
    /// Remove the link.
    Remove,
    /// End the process.
    End,
}

impl LoginOptions {
    pub(super) fn read(options: Raw<'_>) -> Result<Self, ErrorText> {
        let unknown = || "login takes a list of options: link, gap and presence".to_owned();
        let mut read = Self::default();
        let elements = match options.view() {
            Term::Nil => return Ok(read),
            Term::List(list) if list.is_proper() => list.elements(),
            _ => return Err(unknown()),
        };
        for option in elements {
            match option.atom() {
                Some(option) if option.is("link") => read.is_linked = true,
                Some(option) if option.is("gap") => read.hears_gaps = true,
                Some(option) if option.is("presence") => read.hears_presence = true,
                _ => return Err(unknown()),
            }
        }
        Ok(read)
    }
}

impl<M: Mailboxes> ProcessRegistry<M> {
    /// Handles the end of a monitored process.
    pub(super) fn on_down(&mut self, connection: ConnectionId, reference: Raw<'_>) {
        let Some(slot) = self.monitored(reference) else {
            return;
        };
        let is_same_connection = self
            .sessions
            .get(slot)
            .is_some_and(|session| session.process.connection == connection);
        if is_same_connection {
            self.end_session(slot, SessionEnd::Process);
        }
    }

    /// Asks the node of a process to add or remove the monitor of its session.
    pub(super) fn monitor(
        &self,
        connections: &mut Connections,
        request: MonitorRequest,
        slot: SlotKey,
        process: Process,
    ) {
        let Some(connection) = connections
            .get(process.connection)
            .filter(|connection| connection.is_up)
        else {
            return;
        };
        let Some(node) = connection.peer.clone() else {
            return;
        };
        connections.control(process.connection, |out| {
            control::monitor(
                out,
                request,
                |out| RegisteredProcess::Router.write_pid(&self.me, out),
                |out| node.write_pid(out, process.id, process.serial),
                |out| self.write_reference(out, slot),
            );
        });
    }

    /// Monitors the processes that logged in before their node was connected.
    pub(crate) fn monitor_sessions_of(
        &mut self,
        connections: &mut Connections,
        connection: ConnectionId,
    ) {
        for index in 0..self.sessions.slots() {
            let Some(slot) = self.sessions.at(index) else {
                continue;
            };
            if let Some(process) = self.sessions.get(slot).map(|session| session.process)
                && process.connection == connection
            {
                self.monitor(connections, MonitorRequest::Add, slot, process);
                if self.is_linked(slot) {
                    self.link(connections, LinkRequest::Add, process);
                }
            }
        }
    }

    pub(super) fn is_linked(&mut self, slot: SlotKey) -> bool {
        let session = self.sessions.get(slot);
        session.is_some_and(|session| session.is_linked)
    }

    /// Changes the link between router and a process. A linked process ends when this node is gone.
    pub(super) fn link(
        &self,
        connections: &mut Connections,
        request: LinkRequest,
        process: Process,
    ) {
        let connection = connections.get(process.connection);
        let connection = connection.filter(|connection| connection.is_up);
        let Some(node) = connection.and_then(|connection| connection.peer.clone()) else {
            return;
        };
        let from = |out: &mut Vec<u8>| RegisteredProcess::Router.write_pid(&self.me, out);
        let to = |out: &mut Vec<u8>| node.write_pid(out, process.id, process.serial);
        connections.control(process.connection, |out| match request {
            LinkRequest::Add => control::link(out, from, to),
            LinkRequest::Remove => control::unlink(out, from, to),
            LinkRequest::End => control::exit(out, from, to, "closed"),
        });
    }

    /// Writes the reference of a session's monitor, which encodes the key of the session. Erlang
    /// uses 18 bits of the first word.
    fn write_reference(&self, out: &mut Vec<u8>, slot: SlotKey) {
        let words = [slot.index & 0x3_ffff, slot.generation, slot.index >> 18];
        let node = Atom::of(self.me.name.as_str());
        write::reference(out, node, self.me.creation, &words);
    }

    fn monitored(&self, reference: Raw<'_>) -> Option<SlotKey> {
        let Term::Reference(reference) = reference.view() else {
            return None;
        };
        let mut words = reference.numbers();
        let (low, generation, high) = (words.next()?, words.next()?, words.next()?);
        let is_own =
            reference.node.is(self.me.name.as_str()) && reference.creation == self.me.creation;
        is_own.then_some(SlotKey {
            index: low | high << 18,
            generation,
        })
    }
}
