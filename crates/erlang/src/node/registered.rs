//! The registered processes of this node: built-in names without a BEAM process.

use router::Mailboxes;

use super::Node;
use crate::answers::Caller;
use crate::connections::ConnectionId;
use crate::control::{self, Control};
use crate::handshake::LocalNode;
use crate::limits::{CALLER_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::refusal::Refusal;
use crate::term::{Atom, Pid, Raw, Term, write};

/// A registered process, with its number in pids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegisteredProcess {
    NetKernel = 1,
    Router = 2,
    Subsmanager = 3,
    Any = 4,
}

/// The sentence for a call to a process that this node does not have.
const NO_PROCESS: &str =
    "there is no such process at this node; it has router, subsmanager, any and net_kernel";

impl RegisteredProcess {
    /// Each process with its name.
    const ALL: [(Self, &'static str); 4] = [
        (Self::NetKernel, "net_kernel"),
        (Self::Router, "router"),
        (Self::Subsmanager, "subsmanager"),
        (Self::Any, "any"),
    ];

    fn named(name: Atom<'_>) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|(_, own)| name.is(own));
        known.map(|(process, _)| process)
    }

    /// Returns the process with a pid of this node.
    fn of_pid(me: &LocalNode, pid: Pid<'_>) -> Option<Self> {
        let mut known = Self::ALL.into_iter().map(|(process, _)| process);
        known.find(|process| process.pid(me) == pid)
    }

    /// Returns the process that a message is for.
    pub(super) fn recipient(me: &LocalNode, control: Control<'_>) -> Option<Self> {
        match control {
            Control::Send { to } => Self::of_pid(me, to),
            Control::SendNamed { to } => Self::named(to),
            _ => None,
        }
    }

    /// Returns the pid of the process.
    pub(super) fn pid(self, me: &LocalNode) -> Pid<'_> {
        Pid {
            node: Atom::of(me.name.as_str()),
            id: self as u32,
            serial: 0,
            creation: me.creation,
        }
    }
}

impl<M: Mailboxes> Node<M> {
    /// Handles a message.
    ///
    /// # Errors
    ///
    /// When the message is for a process that this node does not have, or that process does not
    /// understand it.
    pub(super) fn on_message(
        &mut self,
        connection: ConnectionId,
        control: Control<'_>,
        payload: Option<Raw<'_>>,
    ) -> Result<(), Refusal> {
        let me = &self.config.me;
        match control {
            Control::Send { .. } | Control::SendNamed { .. } => {
                let process = RegisteredProcess::recipient(me, control);
                return self.on_payload(connection, process, payload);
            }
            Control::Link { from, to } => {
                if RegisteredProcess::of_pid(me, to).is_none() {
                    self.connections
                        .control(connection, |out| control::exit(out, to, from, "noproc"));
                }
            }
            Control::Unlink { id, from, to } => {
                self.connections.control(connection, |out| {
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
                    Term::Pid(pid) => RegisteredProcess::of_pid(me, pid),
                    _ => None,
                };
                // A registered process lives as long as the connection, whose end the monitor
                // reports.
                if process.is_none() {
                    self.connections.control(connection, |out| {
                        control::no_process(out, of, from, reference)
                    });
                }
            }
            Control::Down { reference } => self.on_down(connection, reference),
            Control::Other => {}
        }
        Ok(())
    }

    fn on_payload(
        &mut self,
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
        let from = call.map(|[_, from, _]| from);
        let caller = Caller { connection, from };
        let Some(process) = process else {
            // A caller that monitors the process learns of this from the monitor, and its node
            // drops this answer. Any other caller would wait for ever.
            self.connections.answer_error(caller, NO_PROCESS);
            return Err(Refusal::NotUnderstood);
        };
        if let Some([_, _, request]) = call {
            self.on_request(process, caller, request);
        } else if let Some([kind, request]) = payload.tuple()
            && kind.is_atom("$gen_cast")
        {
            self.on_request(process, caller, request);
        } else if process == RegisteredProcess::Any {
            return self.on_any(connection, payload);
        } else if process == RegisteredProcess::Router {
            return self.on_login_answer(connection, payload);
        } else {
            return Err(Refusal::NotUnderstood);
        }
        Ok(())
    }

    /// Answers a call whose message is refused: its caller may wait without a time limit.
    pub(super) fn answer_refused(&mut self, caller: Caller<'_>, refusal: Refusal) {
        let sentence = match refusal {
            Refusal::TooLarge => format!(
                "the message is larger than {} MiB, or too many large ones are in progress; make \
                 several calls, each with a part of it",
                MESSAGE_BYTES_MAX >> 20
            ),
            Refusal::Term(error) => format!("the request cannot be read: {error}"),
            _ => "the message is not a valid request".to_owned(),
        };
        self.connections.answer_error(caller, &sentence);
    }

    /// Handles a call, or a cast, which has no caller to answer.
    fn on_request(&mut self, process: RegisteredProcess, caller: Caller<'_>, request: Raw<'_>) {
        match process {
            RegisteredProcess::NetKernel => self.on_ping(caller, request),
            RegisteredProcess::Router => self.on_router(caller, request),
            RegisteredProcess::Subsmanager => self.on_subsmanager(caller, request),
            RegisteredProcess::Any => self
                .connections
                .answer_error(caller, "any takes messages {Id, Body}, and no calls"),
        }
    }

    /// Answers `net_adm:ping`.
    fn on_ping(&mut self, caller: Caller<'_>, request: Raw<'_>) {
        match request.tuple() {
            Some([question, _]) if question.is_atom("is_auth") => {
                self.connections
                    .answer(caller, |out| write::atom(out, "yes"));
            }
            _ => self
                .connections
                .answer_error(caller, "net_kernel on this node takes only is_auth"),
        }
    }

    /// Answers with the pid of a registered process, for `global:register_name` and the like. A
    /// server that accepts no clients answers with an error, so that the caller can use another
    /// node of the cluster.
    pub(super) fn answer_pid(&mut self, caller: Caller<'_>, process: RegisteredProcess) {
        if (self.config.is_paused)() {
            let sentence = "this node has not yet read the log of its cluster, or cannot reach \
                            it; use another node";
            return self.connections.answer_error(caller, sentence);
        }
        let pid = process.pid(&self.config.me);
        self.connections.answer(caller, |out| write::pid(out, pid));
    }
}
