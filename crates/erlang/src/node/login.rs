//! `router`: `{send, Id, Msg}`, `{login, Id, Pid}`, `{logout, Pid}`.

use std::mem;

use reactor::SlotKey;
use router::{Mailboxes, SessionRef};

use super::links::{LoginOptions, WatchChange};
use super::observed::SessionEnd;
use super::registered::RegisteredProcess;
use super::{Effect, Node};
use crate::answers::{CallError, Caller};
use crate::connections::{ConnectionId, Process};
use crate::ids;
use crate::limits::{CONNECTIONS_MAX, DIALS_MAX, IDS_MAX};
use crate::metrics::Metric;
use crate::node_name::NodeName;
use crate::refusal::Refusal;
use crate::term::{Pid, Raw};

/// The reason why the slot of a process has a session.
const KNOWN: &str = "its session was found by the process";

impl<M: Mailboxes> Node<M> {
    pub(super) fn on_router(&mut self, caller: Caller<'_>, request: Raw<'_>) {
        let done = if let Some([verb, id, message]) = request.tuple()
            && verb.is_atom("send")
        {
            return self.publish(caller, id, message);
        } else if let Some([verb, id, pid]) = request.tuple()
            && verb.is_atom("login")
        {
            self.login(id, pid, LoginOptions::default())
        } else if let Some([verb, id, pid, options]) = request.tuple()
            && verb.is_atom("login")
        {
            LoginOptions::read(options).and_then(|options| self.login(id, pid, options))
        } else if let Some([verb, pid]) = request.tuple()
            && verb.is_atom("logout")
        {
            self.logout(pid)
        } else if request.is_atom("pid") {
            return self.answer_pid(caller, RegisteredProcess::Router);
        } else {
            let known = "router takes {send, Id, Msg}, {login, Id, Pid}, \
                         {login, Id, Pid, Options}, {logout, Pid} and pid";
            Err(known.into())
        };
        self.connections.answer_result(caller, done);
    }

    /// Logs a process in as an id.
    fn login(&mut self, id: Raw<'_>, pid: Raw<'_>, options: LoginOptions) -> Result<(), CallError> {
        let subject = ids::of_term(id)?;
        let pid = pid.pid().ok_or("login takes {login, Id, Pid} with a pid")?;
        let process = Process {
            connection: self.connection_to(pid)?,
            id: pid.id,
            serial: pid.serial,
        };
        if options.hears_presence && self.config.presence.is_none() {
            let untracked = "this server does not track presence; leave presence out, or start the \
                             server with --presence";
            return Err(untracked.into());
        }
        let known = self.sessions.find(process);
        if let Some(slot) = known
            && let Some(session) = self.sessions.get(slot)
        {
            session.hears_gaps |= options.hears_gaps;
            if options.is_linked && !mem::replace(&mut session.is_linked, true) {
                self.link(process, WatchChange::Begin);
            }
            self.start_presence(slot, options);
            let session = self.sessions.get(slot).expect(KNOWN);
            if let Some(key) = self.router.graph().find(&subject)
                && session.keys().contains(&key)
            {
                return Ok(());
            }
            if session.keys().len() >= IDS_MAX {
                return Err(format!(
                    "a process may have at most {IDS_MAX} ids, and this one has that many"
                )
                .into());
            }
        }
        // The session must exist before the router can find it under the key, so the key is looked
        // up first.
        let key = self.router.graph().hold(&subject)?;
        let slot = match known {
            Some(slot) => {
                self.sessions.get(slot).expect(KNOWN).add(key);
                slot
            }
            None => {
                let slot = self.sessions.insert(self.now, process, key);
                self.metrics.add(Metric::Logins, 1);
                self.metrics.add(Metric::Sessions, 1);
                if let Some(session) = self.sessions.get(slot) {
                    session.is_linked = options.is_linked;
                    session.hears_gaps = options.hears_gaps;
                }
                self.watch(slot, WatchChange::Begin);
                self.start_presence(slot, options);
                self.observe_login(slot, &subject);
                slot
            }
        };
        let logged_in = self.router.login(&subject, self.session_ref(slot));
        self.router.graph().release(key);
        let session = self.sessions.get(slot);
        if session.is_some_and(|session| session.hears_presence) {
            // The session follows other subjects now.
            self.schedule_snapshot(slot);
        }
        Ok(logged_in.map(drop)?)
    }

    /// Returns the name of a session for the router.
    pub(super) const fn session_ref(&self, slot: SlotKey) -> SessionRef {
        SessionRef::new(self.config.worker, slot)
    }

    /// Starts presence notices for a session, if its process asks for them.
    fn start_presence(&mut self, slot: SlotKey, options: LoginOptions) {
        if options.hears_presence
            && let Some(session) = self.sessions.get(slot)
            && !mem::replace(&mut session.hears_presence, true)
            && let Some(presence) = &self.config.presence
        {
            presence.begin_session();
            self.schedule_snapshot(slot);
        }
    }

    /// Returns the connection to the node of a process. If there is none, the node is dialed.
    fn connection_to(&mut self, pid: Pid<'_>) -> Result<ConnectionId, CallError> {
        let name = pid.node.text();
        if let Some(connection) = self.connections.find(&name) {
            let node = self.connections.peer(connection);
            return match node.is_some_and(|node| node.creation == pid.creation) {
                true => Ok(connection),
                false => Err(format!(
                    "the process belongs to an earlier run of {name} and no longer exists"
                )
                .into()),
            };
        }
        let name: NodeName = name.parse()?;
        if name == self.config.me.name {
            return Err("a process of this node cannot log in".into());
        }
        let dials = self.connections.requested_dials();
        let nodes = self.connections.len() - self.connections.unproven().count();
        if dials >= DIALS_MAX || nodes >= CONNECTIONS_MAX {
            self.metrics.add(Refusal::Crowded.metric(), 1);
            return Err(format!(
                "{name} is not connected, and too many nodes are being dialed ({dials} of \
                 {DIALS_MAX}) or connected ({nodes} of {CONNECTIONS_MAX}); connect {name} with \
                 this node, or log in again later"
            )
            .into());
        }
        let connection = self
            .connections
            .dial(self.now, name.as_str(), pid.creation, false);
        self.effects.push(Effect::Dial(connection, name));
        Ok(connection)
    }

    /// Logs a process out of all its ids. Does nothing if it has none.
    fn logout(&mut self, pid: Raw<'_>) -> Result<(), CallError> {
        let pid = pid.pid().ok_or("logout takes {logout, Pid} with a pid")?;
        let Some(connection) = self.connections.find(&pid.node.text()) else {
            return Ok(());
        };
        let process = Process {
            connection,
            id: pid.id,
            serial: pid.serial,
        };
        if let Some(slot) = self.sessions.find(process) {
            self.watch(slot, WatchChange::End);
            self.end_session(slot, SessionEnd::Process);
        }
        Ok(())
    }

    /// Logs a session out.
    pub(super) fn end_session(&mut self, slot: SlotKey, end: SessionEnd) {
        self.observe_logout(slot, end);
        // Its entry among those to serve is skipped later.
        self.notices.snapshots.remove(&slot);
        let name = self.session_ref(slot);
        if let Some(session) = self.sessions.remove(slot) {
            self.metrics.take(Metric::Sessions, 1);
            if session.hears_presence
                && let Some(presence) = &self.config.presence
            {
                presence.end_session();
            }
            for &key in session.keys() {
                self.router.logout(key, name);
            }
        }
    }

    /// Logs out sessions that the operator closes.
    pub(crate) fn close_sessions(&mut self, recipients: &[SlotKey]) {
        for &slot in recipients {
            self.watch(slot, WatchChange::Kill);
            self.end_session(slot, SessionEnd::Operator);
        }
    }
}
