//! `router`: `{send, Id, Msg}`, `{login, Id, Pid}`, `{logout, Pid}`.

use std::mem;
use std::rc::Rc;

use ::router::{Event, Mailboxes, Tally};
use history::Reach;
use reactor::SlotKey;

use super::links::{LinkRequest, LoginOptions};
use super::observed::SessionEnd;
use super::{ErrorText, ProcessRegistry, RegisteredProcess, answer, answer_error, answer_result};
use crate::connections::{ConnectionId, Connections, RemoteNode};
use crate::control::MonitorRequest;
use crate::ids;
use crate::limits::{CONNECTIONS_MAX, DIALS_MAX, IDS_MAX};
use crate::metrics::Metric;
use crate::node_name::NodeName;
use crate::outcome::Outcome;
use crate::payload;
use crate::refusal::Refusal;
use crate::replicated;
use crate::sessions::Process;
use crate::term::{Pid, Raw, write};

/// The error for a call when too many others are waiting.
pub(super) const TOO_MANY_CALLS: &str =
    "too many calls are waiting for their receipts; call again when some of them are answered";

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
            let done = self.login(connections, id, pid, LoginOptions::default());
            answer_result(connections, connection, from, done);
        } else if let Some([verb, id, pid, options]) = request.tuple()
            && verb.is_atom("login")
        {
            let done = LoginOptions::read(options)
                .and_then(|options| self.login(connections, id, pid, options));
            answer_result(connections, connection, from, done);
        } else if let Some([verb, pid]) = request.tuple()
            && verb.is_atom("logout")
        {
            let done = self.logout(connections, pid);
            answer_result(connections, connection, from, done);
        } else if request.is_atom("pid") {
            self.answer_pid(connections, connection, from, RegisteredProcess::Router);
        } else {
            let known = "router takes {send, Id, Msg}, {login, Id, Pid}, \
                         {login, Id, Pid, Options}, {logout, Pid} and pid";
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
        if let Some(log) = self.log.clone() {
            let logged = self.log_event(&*log, connection, &event, Reach::Subscribers, from);
            if let Err(sentence) = logged {
                answer_error(connections, connection, from, sentence);
            }
            return;
        }
        let Some(caller) = from else {
            self.router.publish(event, &self.ignored_receipts);
            return;
        };
        if self.calls.is_full() {
            return answer_error(connections, connection, from, TOO_MANY_CALLS);
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
            if let Outcome::NotLogged(_) = outcome {
                self.metrics.add(Metric::LogFailures, 1);
            }
            if let Some(list) = call.list {
                self.on_part_completed(connections, list, outcome);
                continue;
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
                Outcome::NotLogged(error) => {
                    let sentence = replicated::sentence(error);
                    answer_error(connections, call.connection, Some(from), &sentence);
                }
            }
        }
    }

    fn event(&self, id: Raw<'_>, message: Raw<'_>) -> Result<Event, ErrorText> {
        let subject = ids::of_term(id).map_err(|error| error.to_string())?;
        let payload = payload::of_term(message, self.event_bytes_max).map_err(|_| {
            format!(
                "the message is larger than the {} bytes that an event may have; send a smaller \
                 one, or raise event-bytes",
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
        options: LoginOptions,
    ) -> Result<(), ErrorText> {
        let subject = ids::of_term(id).map_err(|error| error.to_string())?;
        let pid = pid.pid().ok_or("login takes {login, Id, Pid} with a pid")?;
        let connection = self.connection_to(connections, pid)?;
        let process = Process {
            connection,
            id: pid.id,
            serial: pid.serial,
        };
        if options.hears_presence && self.presence.is_none() {
            return Err(
                "this server does not track presence; leave presence out, or start the server \
                 with --presence"
                    .to_owned(),
            );
        }
        let known = self.sessions.find(process);
        if let Some(slot) = known
            && let Some(session) = self.sessions.get(slot)
        {
            session.hears_gaps |= options.hears_gaps;
            if options.is_linked && !mem::replace(&mut session.is_linked, true) {
                self.link(connections, LinkRequest::Add, process);
            }
            self.start_presence(slot, options);
            let session = self.sessions.get(slot).expect("the session exists");
            if let Some(key) = self.router.graph().find(&subject)
                && session.keys().contains(&key)
            {
                return Ok(());
            }
            if session.keys().len() >= IDS_MAX {
                return Err(format!(
                    "a process may have at most {IDS_MAX} ids, and this one has that many"
                ));
            }
        }
        // The session must exist before the router can find it under the key, so the key is looked
        // up first.
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
                if let Some(session) = self.sessions.get(slot) {
                    session.is_linked = options.is_linked;
                    session.hears_gaps = options.hears_gaps;
                }
                if options.is_linked {
                    self.link(connections, LinkRequest::Add, process);
                }
                self.start_presence(slot, options);
                self.observe_login(slot, &subject);
                slot
            }
        };
        let session = self.session_ref(slot);
        let logged_in = self.router.login(&subject, session);
        self.router.graph().release(key);
        let session = self.sessions.get(slot);
        if session.is_some_and(|session| session.hears_presence) {
            // The session follows other subjects now.
            self.schedule_snapshot(slot);
        }
        logged_in.map(drop).map_err(|error| error.to_string())
    }

    /// Starts presence notices for a session, if its process asks for them.
    fn start_presence(&mut self, slot: SlotKey, options: LoginOptions) {
        if options.hears_presence
            && let Some(session) = self.sessions.get(slot)
            && !mem::replace(&mut session.hears_presence, true)
            && let Some(presence) = &self.presence
        {
            presence.begin_session();
            self.schedule_snapshot(slot);
        }
    }

    /// Returns the connection to the node of a process. If there is none, the node is dialed.
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
        let dials = connections.requested_dials();
        let nodes = connections.len() - connections.unproven().count();
        if dials >= DIALS_MAX || nodes >= CONNECTIONS_MAX {
            self.metrics
                .add(Refusal::METRICS[Refusal::Crowded.kind()], 1);
            return Err(format!(
                "{name} is not connected, and too many nodes are being dialed ({dials} of \
                 {DIALS_MAX}) or connected ({nodes} of {CONNECTIONS_MAX}); connect {name} with \
                 this node, or log in again later"
            ));
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
            if self.is_linked(slot) {
                self.link(connections, LinkRequest::Remove, process);
            }
            self.end_session(slot, SessionEnd::Process);
        }
        Ok(())
    }

    /// Logs a session out.
    pub(super) fn end_session(&mut self, slot: SlotKey, end: SessionEnd) {
        self.observe_logout(slot, end);
        self.notices.forget(slot);
        let name = self.session_ref(slot);
        if let Some(session) = self.sessions.remove(slot) {
            self.metrics.take(Metric::Sessions, 1);
            if session.hears_presence
                && let Some(presence) = &self.presence
            {
                presence.end_session();
            }
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
                if self.is_linked(slot) {
                    self.link(connections, LinkRequest::End, process);
                }
                self.end_session(slot, SessionEnd::Operator);
            }
        }
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

    /// Logs out all sessions of a connection whose node turned out to be another run.
    pub(crate) fn end_sessions_of(&mut self, connection: ConnectionId) {
        for index in 0..self.sessions.slots() {
            if let Some(slot) = self.sessions.at(index)
                && let Some(session) = self.sessions.get(slot)
                && session.process.connection == connection
            {
                self.end_session(slot, SessionEnd::Node);
            }
        }
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
