//! The registered processes of this node: built-in names without a BEAM process.
//!
//! Owns the sessions of remote processes and the original terms of ids. Must never depend on how
//! messages are transported.

mod open_lists;
mod open_questions;
mod parcel_in_flight;
mod pending_notices;
mod any;
mod deliver;
mod links;
mod lists;
mod logged;
mod login_questions;
mod notices;
mod observed;
mod router;
mod subsmanager;

use std::sync::Arc;

use ::router::{Mailboxes, Router, SessionRef, Tally, WorkerId};
use reactor::{SlotKey, Tick};
use replication::Append;
use server::{Observer, Presence};

use crate::config::Config;
use crate::connections::{ConnectionId, Connections};
use crate::control::{self, Control};
use crate::handshake::LocalNode;
use crate::id_terms::IdTerms;
use crate::limits::{CALLER_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::metrics::NodeCounters;
use crate::pending_calls::PendingCalls;
use crate::refusal::Refusal;
use crate::sessions::Sessions;
use crate::term::{Atom, Pid, Raw, Term, write};
pub(crate) use open_lists::{ListId, Lists};
pub(crate) use open_questions::LoginQuestions;
pub(crate) use parcel_in_flight::ParcelInFlight;
use pending_notices::Notices;

/// The registered processes and their state.
pub(crate) struct ProcessRegistry<M> {
    pub(crate) me: LocalNode,
    router: Arc<Router<M>>,
    worker: WorkerId,
    event_bytes_max: usize,
    pub(crate) now: Tick,
    pub(crate) sessions: Sessions,
    pub(crate) id_terms: IdTerms,
    pub(crate) calls: PendingCalls,
    /// Long lists of subscriptions in progress.
    pub(crate) lists: Lists,
    /// The process that decides on logins of clients, if there is one.
    pub(crate) logins: Option<LoginQuestions>,
    /// Notices to processes that asked for them.
    pub(crate) notices: Notices,
    /// The presence of ids, if the server tracks it.
    presence: Option<Arc<Presence>>,
    /// Observer of sessions, if there is one.
    observer: Option<Observer>,
    /// Time, in seconds since 1970.
    pub(crate) unix_seconds: u64,
    /// The log of the cluster of servers, if there is one.
    pub(crate) log: Option<Arc<dyn Append>>,
    /// Whether the server accepts no clients.
    is_paused: Box<dyn Fn() -> bool + Send>,
    /// Collects the receipts of events whose publisher does not wait.
    ignored_receipts: Arc<Tally>,
    /// Connections to nodes that must be dialed because one of their processes has logged in.
    pub(crate) to_dial: Vec<ConnectionId>,
    metrics: Arc<NodeCounters>,
}

/// A registered process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RegisteredProcess {
    NetKernel,
    Router,
    Subsmanager,
    Any,
}

/// The sentence of an `{error, Sentence}` answer.
type ErrorText = String;

/// The sentence for a call to a process that this node does not have.
const NO_PROCESS: &str =
    "there is no such process at this node; it has router, subsmanager, any and net_kernel";

impl RegisteredProcess {
    const ALL: [(Self, &'static str, u32); 4] = [
        (Self::NetKernel, "net_kernel", 1),
        (Self::Router, "router", 2),
        (Self::Subsmanager, "subsmanager", 3),
        (Self::Any, "any", 4),
    ];

    fn named(name: Atom<'_>) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|(_, own, _)| name.is(own));
        known.map(|(process, ..)| process)
    }

    fn number(self) -> u32 {
        let known = Self::ALL.into_iter().find(|(process, ..)| *process == self);
        known.map_or(0, |(_, _, number)| number)
    }

    /// Returns the process with a pid of this node.
    fn of_pid(me: &LocalNode, pid: Pid<'_>) -> Option<Self> {
        let is_own = pid.node.is(me.name.as_str()) && pid.creation == me.creation;
        let known = Self::ALL
            .into_iter()
            .find(|&(_, _, number)| is_own && pid.id == number && pid.serial == 0);
        known.map(|(process, ..)| process)
    }

    fn write_pid(self, me: &LocalNode, out: &mut Vec<u8>) {
        let node = Atom::of(me.name.as_str());
        write::pid(out, node, self.number(), 0, me.creation);
    }
}

impl<M: Mailboxes> ProcessRegistry<M> {
    pub(crate) fn new(
        config: Config,
        router: Arc<Router<M>>,
        metrics: Arc<NodeCounters>,
        ring: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            me: config.me,
            router,
            worker: config.worker,
            event_bytes_max: config.event_bytes_max,
            now: Tick(0),
            sessions: Sessions::default(),
            id_terms: IdTerms::default(),
            calls: PendingCalls::new(ring),
            lists: Lists::default(),
            logins: config.logins,
            notices: Notices::default(),
            presence: config.presence,
            observer: config.observer,
            unix_seconds: 0,
            log: config.log,
            is_paused: config.is_paused,
            ignored_receipts: Tally::new(),
            to_dial: Vec::new(),
            metrics,
        }
    }

    const fn session_ref(&self, slot: SlotKey) -> SessionRef {
        SessionRef::new(self.worker, slot)
    }

    /// Returns the router of events.
    #[cfg(any(test, fuzzing))]
    pub(crate) const fn router(&self) -> &Arc<Router<M>> {
        &self.router
    }

    /// Handles a message.
    ///
    /// # Errors
    ///
    /// When the message is for a process that this node does not have, or that process does not
    /// understand it.
    pub(crate) fn on_message(
        &mut self,
        connections: &mut Connections,
        connection: ConnectionId,
        control: Control<'_>,
        payload: Option<Raw<'_>>,
    ) -> Result<(), Refusal> {
        match control {
            Control::Send { to } => {
                return self.on_payload(
                    connections,
                    connection,
                    RegisteredProcess::of_pid(&self.me, to),
                    payload,
                );
            }
            Control::SendNamed { to, .. } => {
                return self.on_payload(
                    connections,
                    connection,
                    RegisteredProcess::named(to),
                    payload,
                );
            }
            Control::Link { from, to } => {
                if RegisteredProcess::of_pid(&self.me, to).is_none() {
                    connections.control(connection, |out| control::exit_no_process(out, to, from));
                }
            }
            Control::Unlink { id, from, to } => {
                connections.control(connection, |out| {
                    control::unlink_acknowledged(out, id, to, from)
                });
            }
            Control::Monitor {
                from,
                of,
                reference,
            } => {
                let process = match of.view() {
                    Term::Atom(name) => RegisteredProcess::named(name),
                    Term::Pid(pid) => RegisteredProcess::of_pid(&self.me, pid),
                    _ => None,
                };
                // A registered process lives as long as the connection, whose end the monitor
                // reports.
                if process.is_none() {
                    connections.control(connection, |out| {
                        control::no_process(out, of, from, reference)
                    });
                }
            }
            Control::Down { reference, .. } => self.on_down(connection, reference),
            Control::Other => {}
        }
        Ok(())
    }

    fn on_payload(
        &mut self,
        connections: &mut Connections,
        connection: ConnectionId,
        process: Option<RegisteredProcess>,
        payload: Option<Raw<'_>>,
    ) -> Result<(), Refusal> {
        let Some(payload) = payload else {
            return Err(Refusal::NotUnderstood);
        };
        let call = payload.tuple().filter(|[kind, from, _]| {
            kind.is_atom("$gen_call") && from.bytes().len() <= CALLER_BYTES_MAX
        });
        let Some(process) = process else {
            // A caller that monitors the process learns of this from the monitor, and its node
            // drops this answer. Any other caller would wait for ever.
            let from = call.map(|[_, from, _]| from);
            answer_error(connections, connection, from, NO_PROCESS);
            return Err(Refusal::NotUnderstood);
        };
        if let Some([_, from, request]) = call {
            self.on_request(connections, connection, process, Some(from), request);
        } else if let Some([kind, request]) = payload.tuple()
            && kind.is_atom("$gen_cast")
        {
            self.on_request(connections, connection, process, None, request);
        } else if process == RegisteredProcess::Any {
            return self.on_any(connection, payload);
        } else if process == RegisteredProcess::Router {
            return self.on_login_answer(connections, connection, payload);
        } else {
            return Err(Refusal::NotUnderstood);
        }
        Ok(())
    }

    /// Answers a call whose message is refused: its caller may wait without a time limit.
    pub(crate) fn answer_refused(
        &self,
        connections: &mut Connections,
        connection: ConnectionId,
        caller: Option<Raw<'_>>,
        refusal: Refusal,
    ) {
        let sentence = match refusal {
            Refusal::TooLarge => format!(
                "the message is larger than {} MiB, or too many large ones are in progress; make \
                 several calls, each with a part of it",
                MESSAGE_BYTES_MAX >> 20
            ),
            Refusal::Term(error) => format!("the request cannot be read: {error}"),
            _ => "the message is not a valid request".to_owned(),
        };
        answer_error(connections, connection, caller, &sentence);
    }

    /// Handles a call, or a cast, which has no caller to answer.
    fn on_request(
        &mut self,
        connections: &mut Connections,
        connection: ConnectionId,
        process: RegisteredProcess,
        from: Option<Raw<'_>>,
        request: Raw<'_>,
    ) {
        match process {
            RegisteredProcess::NetKernel => self.on_ping(connections, connection, from, request),
            RegisteredProcess::Router => self.on_router(connections, connection, from, request),
            RegisteredProcess::Subsmanager => {
                self.on_subsmanager(connections, connection, from, request)
            }
            RegisteredProcess::Any => answer_error(
                connections,
                connection,
                from,
                "any takes messages {Id, Body}, and no calls",
            ),
        }
    }

    /// Answers `net_adm:ping`.
    fn on_ping(
        &mut self,
        connections: &mut Connections,
        connection: ConnectionId,
        from: Option<Raw<'_>>,
        request: Raw<'_>,
    ) {
        match request.tuple() {
            Some([question, _]) if question.is_atom("is_auth") => {
                answer(connections, connection, from, |out| write::atom(out, "yes"));
            }
            _ => answer_error(
                connections,
                connection,
                from,
                "net_kernel on this node takes only is_auth",
            ),
        }
    }

    /// Answers with the pid of a registered process, for `global:register_name` and the like. A
    /// server that accepts no clients answers with an error, so that the caller can use another
    /// node of the cluster.
    fn answer_pid(
        &self,
        connections: &mut Connections,
        connection: ConnectionId,
        from: Option<Raw<'_>>,
        process: RegisteredProcess,
    ) {
        if (self.is_paused)() {
            let sentence = "this node has not yet read the log of its cluster, or cannot reach \
                            it; use another node";
            return answer_error(connections, connection, from, sentence);
        }
        answer(connections, connection, from, |out| {
            process.write_pid(&self.me, out)
        });
    }
}

/// Answers a call with `{Tag, Reply}`. If the caller waits with an alias, the answer goes to the
/// alias, so that a late answer is dropped.
fn answer(
    connections: &mut Connections,
    connection: ConnectionId,
    from: Option<Raw<'_>>,
    reply: impl FnOnce(&mut Vec<u8>),
) {
    let Some([pid, tag]) = from.and_then(Raw::tuple) else {
        return;
    };
    let (Some(to), Some(node)) = (
        pid.pid(),
        connections
            .get(connection)
            .and_then(|connection| connection.peer.clone()),
    ) else {
        return;
    };
    // A call on behalf of a process of another node is answered on that node's connection.
    let connection = if to.node.is(&node.name) {
        Some(connection)
    } else {
        connections.find(&to.node.text())
    };
    let Some(connection) = connection.filter(|&connection| {
        connections
            .get(connection)
            .is_some_and(|connection| connection.is_up)
    }) else {
        return;
    };
    let alias = match tag.view() {
        Term::List(list) if node.has_alias && list.elements().len() == 1 => list
            .elements()
            .next()
            .filter(|first| first.is_atom("alias"))
            .map(|_| list.tail())
            .filter(|tail| matches!(tail.view(), Term::Reference(_))),
        _ => None,
    };
    let message = |out: &mut Vec<u8>| {
        write::tuple(out, 2);
        write::raw(out, tag);
        reply(out);
    };
    match alias {
        Some(alias) => connections.message(
            connection,
            |out| control::alias_send(out, |out| write::raw(out, pid), alias),
            message,
        ),
        None => connections.message(
            connection,
            |out| control::send(out, |out| write::raw(out, pid)),
            message,
        ),
    }
}

/// Answers `{error, Sentence}`.
fn answer_error(
    connections: &mut Connections,
    connection: ConnectionId,
    from: Option<Raw<'_>>,
    sentence: &str,
) {
    answer(connections, connection, from, |out| {
        write::tuple(out, 2);
        write::atom(out, "error");
        write::binary(out, sentence.as_bytes());
    });
}

/// Answers `ok` or `{error, Sentence}`.
fn answer_result(
    connections: &mut Connections,
    connection: ConnectionId,
    from: Option<Raw<'_>>,
    done: Result<(), ErrorText>,
) {
    match done {
        Ok(()) => answer(connections, connection, from, |out| write::atom(out, "ok")),
        Err(sentence) => answer_error(connections, connection, from, &sentence),
    }
}
