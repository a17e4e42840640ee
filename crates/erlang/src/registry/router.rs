//! `router`: `{send, Id, Msg}`, `{login, Id, Pid}`, `{logout, Pid}`.

use std::rc::Rc;

use ::router::{Event, Mailboxes, Tally};
use reactor::SlotKey;

use super::{ErrorText, ProcessRegistry, RegisteredProcess, answer, answer_error, answer_result};
use crate::connections::{ConnectionId, Connections, RemoteNode};
use crate::control::{self, MonitorRequest};
use crate::ids;
use crate::limits::IDS_MAX;
use crate::metrics::Metric;
use crate::node_name::NodeName;
use crate::payload;
use crate::pending_calls::Outcome;
use crate::sessions::Process;
use crate::term::{Atom, Pid, Raw, Term, write};

impl<M: Mailboxes> ProcessRegistry<M> {
    pub(super) fn on_router(
        &mut self,
        connections: &mut Connections,
        connection: ConnectionId,
        from: Option<Raw<'_>>,
        request: Raw<'_>,
    ) {
        if let Some([verb, id, message]) = request.tuple()
            && verb.is_atom("send")
        {
            self.publish(connections, connection, from, id, message);
        } else if let Some([verb, id, pid]) = request.tuple()
            && verb.is_atom("login")
        {
            let done = self.login(connections, id, pid);
            answer_result(connections, connection, from, done);
        } else if let Some([verb, pid]) = request.tuple()
            && verb.is_atom("logout")
        {
            let done = self.logout(connections, pid);
            answer_result(connections, connection, from, done);
        } else if request.is_atom("pid") {
            self.answer_pid(connections, connection, from, RegisteredProcess::Router);
        } else {
            let known = "router takes {send, Id, Msg}, {login, Id, Pid}, {logout, Pid} and pid";
            answer_error(connections, connection, from, known);
        }
    }

    /// Publishes an event, and answers `{ok, N}` when its receipt is complete.
    fn publish(
        &mut self,
        connections: &mut Connections,
        connection: ConnectionId,
        from: Option<Raw<'_>>,
        id: Raw<'_>,
        message: Raw<'_>,
    ) {
        let event = match self.event(id, message) {
            Ok(event) => event,
            Err(sentence) => return answer_error(connections, connection, from, &sentence),
        };
        let Some(caller) = from else {
            self.router.publish(event, &self.ignored_receipts);
            return;
        };
        if self.calls.is_full() {
            let sentence =
                "too many calls wait for their receipts; call again when some of them are answered";
            return answer_error(connections, connection, from, sentence);
        }
        let tally = Tally::new();
        self.router.publish(event, &tally);
        if let Some(counts) = self.calls.receipt(connection, caller.bytes(), tally) {
            answer_sent(
                connections,
                connection,
                caller,
                counts.written + counts.queued,
            );
        }
    }

    /// Answers calls whose outcome is known.
    pub(crate) fn answer_completed(&mut self, connections: &mut Connections) {
        for (call, outcome) in self.calls.take_completed() {
            if let Outcome::Changes(Ok(())) = outcome {
                for (id, term) in &call.id_terms {
                    self.id_terms.remember(self.router.graph(), id, term);
                }
            }
            let from = call.from.as_deref();
            let Some((from, _)) = from.and_then(|from| Raw::parse(from).ok()) else {
                continue;
            };
            match outcome {
                Outcome::Receipt(counts) => {
                    answer_sent(
                        connections,
                        call.connection,
                        from,
                        counts.written + counts.queued,
                    );
                }
                Outcome::Changes(done) => {
                    let done = done.map_err(|error| error.to_string());
                    answer_result(connections, call.connection, Some(from), done);
                }
            }
        }
    }

    fn event(&self, id: Raw<'_>, message: Raw<'_>) -> Result<Event, ErrorText> {
        let subject = ids::of_term(id).map_err(|error| error.to_string())?;
        let payload = payload::of_term(message, self.event_bytes_max).map_err(|_| {
            format!(
                "the message is larger than the {} bytes that an event may have; \
                 send less, or raise event-bytes",
                self.event_bytes_max
            )
        })?;
        Ok(Event {
            subject,
            event_type: None,
            payload,
        })
    }

    /// Logs a process in as an id.
    fn login(
        &mut self,
        connections: &mut Connections,
        id: Raw<'_>,
        pid: Raw<'_>,
    ) -> Result<(), ErrorText> {
        let subject = ids::of_term(id).map_err(|error| error.to_string())?;
        let pid = pid.pid().ok_or("login takes {login, Id, Pid} with a pid")?;
        let connection = self.connection_to(connections, pid)?;
        let process = Process {
            connection,
            id: pid.id,
            serial: pid.serial,
        };
        let known = self.sessions.find(process);
        if let Some(slot) = known
            && let Some(session) = self.sessions.get(slot)
        {
            if let Some(key) = self.router.graph().find(&subject)
                && session.keys().contains(&key)
            {
                return Ok(());
            }
            if session.keys().len() >= IDS_MAX {
                return Err(format!(
                    "a process may have {IDS_MAX} ids, and this one has that many"
                ));
            }
        }
        // The session must exist before the router finds it under the key; the key is only known
        // here.
        let key = self.router.graph().hold(&subject);
        let key = key.map_err(|error| error.to_string())?;
        let slot = match known {
            Some(slot) => {
                self.sessions.add(slot, key);
                slot
            }
            None => {
                let slot = self.sessions.insert(self.now, process, key);
                self.metrics.add(Metric::Logins, 1);
                self.metrics.add(Metric::Sessions, 1);
                self.monitor(connections, MonitorRequest::Add, slot, process);
                slot
            }
        };
        let session = self.session_ref(slot);
        let logged_in = self.router.login(&subject, session);
        self.router.graph().release(key);
        logged_in.map(drop).map_err(|error| error.to_string())
    }

    /// The connection to the node of a process. Without one, the node is dialed.
    fn connection_to(
        &mut self,
        connections: &mut Connections,
        pid: Pid<'_>,
    ) -> Result<ConnectionId, ErrorText> {
        let name = pid.node.text();
        if let Some(connection) = connections.find(&name) {
            let creation = connections
                .get(connection)
                .and_then(|connection| connection.peer.as_ref());
            return match creation.map(|node| node.creation) {
                Some(creation) if creation == pid.creation => Ok(connection),
                _ => Err(format!(
                    "the process belongs to an earlier run of {name} and no longer exists"
                )),
            };
        }
        let name: NodeName = name.parse()?;
        if name == self.me.name {
            return Err("a process of this node cannot log in".to_owned());
        }
        let connection = connections.open(self.now, None, true);
        if let Some(opened) = connections.get_mut(connection) {
            opened.peer = Some(Rc::new(RemoteNode {
                name: name.as_str().into(),
                creation: pid.creation,
                has_alias: false,
            }));
        }
        connections.bind_name(name.as_str(), connection);
        self.to_dial.push(connection);
        Ok(connection)
    }

    /// Logs a process out of all its ids. Does nothing if it has none.
    fn logout(&mut self, connections: &mut Connections, pid: Raw<'_>) -> Result<(), ErrorText> {
        let pid = pid.pid().ok_or("logout takes {logout, Pid} with a pid")?;
        let Some(connection) = connections.find(&pid.node.text()) else {
            return Ok(());
        };
        let process = Process {
            connection,
            id: pid.id,
            serial: pid.serial,
        };
        if let Some(slot) = self.sessions.find(process) {
            self.monitor(connections, MonitorRequest::Remove, slot, process);
            self.end_session(slot);
        }
        Ok(())
    }

    /// Logs a session out.
    pub(super) fn end_session(&mut self, slot: SlotKey) {
        let name = self.session_ref(slot);
        if let Some(session) = self.sessions.remove(slot) {
            self.metrics.take(Metric::Sessions, 1);
            for &key in session.keys() {
                self.router.logout(key, name);
            }
        }
    }

    /// Logs out sessions that the operator closes.
    pub(crate) fn close(&mut self, connections: &mut Connections, recipients: &[SlotKey]) {
        for &slot in recipients {
            if let Some(process) = self.sessions.get(slot).map(|session| session.process) {
                self.monitor(connections, MonitorRequest::Remove, slot, process);
                self.end_session(slot);
            }
        }
    }

    /// Handles the end of a monitored process.
    pub(super) fn on_down(&mut self, connection: ConnectionId, reference: Raw<'_>) {
        let Some(slot) = self.monitored(reference) else {
            return;
        };
        let is_of_line = self
            .sessions
            .get(slot)
            .is_some_and(|session| session.process.connection == connection);
        if is_of_line {
            self.end_session(slot);
        }
    }

    /// Asks the node of a process to add or remove the monitor of its session.
    fn monitor(
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

    /// Moves the sessions of a node to its new connection.
    pub(crate) fn move_sessions(&mut self, from: ConnectionId, to: ConnectionId) {
        for index in 0..self.sessions.slots() {
            if let Some(slot) = self.sessions.at(index)
                && let Some(session) = self.sessions.get(slot)
                && session.process.connection == from
            {
                self.sessions.move_to(slot, to);
            }
        }
    }

    /// Logs out all sessions of a connection that turned out to lead to another run of the node.
    pub(crate) fn end_sessions_of(&mut self, connection: ConnectionId) {
        for index in 0..self.sessions.slots() {
            if let Some(slot) = self.sessions.at(index)
                && let Some(session) = self.sessions.get(slot)
                && session.process.connection == connection
            {
                self.end_session(slot);
            }
        }
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
            }
        }
    }

    /// Writes the reference of a session's monitor: the key of the session. Erlang uses 18 bits of
    /// the first word.
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

fn answer_sent(
    connections: &mut Connections,
    connection: ConnectionId,
    from: Raw<'_>,
    reached: u64,
) {
    answer(connections, connection, Some(from), |out| {
        write::tuple(out, 2);
        write::atom(out, "ok");
        write::integer(out, reached.cast_signed());
    });
}
