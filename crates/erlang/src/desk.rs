//! Who answers at this node: processes that are none. `router`, `subsmanager`, `net_kernel` and `any`.
//!
//! Owns the sessions of processes and what is known of ids. Must never know how messages travel.

mod any;
mod deliver;
mod router;
mod subsmanager;

use std::sync::Arc;

use ::router::{Mailboxes, Router, SessionRef, Tally, WorkerId};
use reactor::{SlotKey, Tick};

use crate::calls::Calls;
use crate::control::{self, Control};
use crate::handshake::Me;
use crate::limits::CALLER_BYTES_MAX;
use crate::lines::{LineId, Lines};
use crate::metrics::NodeCounters;
use crate::refusal::Refusal;
use crate::sessions::Sessions;
use crate::spellings::Spellings;
use crate::term::{Atom, Pid, Raw, Term, write};
pub(crate) use deliver::Delivered;

/// What the node answers for.
pub(crate) struct Desk<M> {
    pub(crate) me: Me,
    router: Arc<Router<M>>,
    worker: WorkerId,
    event_bytes_max: usize,
    pub(crate) now: Tick,
    pub(crate) sessions: Sessions,
    pub(crate) spellings: Spellings,
    pub(crate) calls: Calls,
    /// For sends that nobody awaits.
    unawaited: Arc<Tally>,
    /// Nodes that must be called, as processes of theirs have logged in.
    pub(crate) wanted: Vec<LineId>,
    metrics: Arc<NodeCounters>,
}

/// Those who answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    NetKernel,
    Router,
    Subsmanager,
    Any,
}

/// Why a request is refused: a sentence for the caller.
type Refused = String;

impl Place {
    const ALL: [(Self, &'static str, u32); 4] = [
        (Self::NetKernel, "net_kernel", 1),
        (Self::Router, "router", 2),
        (Self::Subsmanager, "subsmanager", 3),
        (Self::Any, "any", 4),
    ];

    fn named(name: Atom<'_>) -> Option<Self> {
        let known = Self::ALL.into_iter().find(|(_, own, _)| name.is(own));
        known.map(|(place, ..)| place)
    }

    fn number(self) -> u32 {
        let known = Self::ALL.into_iter().find(|(place, ..)| *place == self);
        known.map_or(0, |(_, _, number)| number)
    }

    /// The place that a pid of this node names.
    fn of_pid(me: &Me, pid: Pid<'_>) -> Option<Self> {
        let is_own = pid.node.is(me.name.as_str()) && pid.creation == me.creation;
        let known = Self::ALL
            .into_iter()
            .find(|&(_, _, number)| is_own && pid.id == number && pid.serial == 0);
        known.map(|(place, ..)| place)
    }

    fn write_pid(self, me: &Me, out: &mut Vec<u8>) {
        let node = Atom::of(me.name.as_str());
        write::pid(out, node, self.number(), 0, me.creation);
    }
}

impl<M: Mailboxes> Desk<M> {
    pub(crate) fn new(
        me: Me,
        router: Arc<Router<M>>,
        worker: WorkerId,
        event_bytes_max: usize,
        metrics: Arc<NodeCounters>,
        ring: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            me,
            router,
            worker,
            event_bytes_max,
            now: Tick(0),
            sessions: Sessions::default(),
            spellings: Spellings::default(),
            calls: Calls::new(ring),
            unawaited: Tally::new(),
            wanted: Vec::new(),
            metrics,
        }
    }

    const fn name(&self, slot: SlotKey) -> SessionRef {
        SessionRef::new(self.worker, slot)
    }

    /// Where events come from and go to.
    #[cfg(any(test, fuzzing))]
    pub(crate) const fn router(&self) -> &Arc<Router<M>> {
        &self.router
    }

    /// Acts on what a node has sent.
    ///
    /// # Errors
    ///
    /// When the message is for a process that this node does not have, or that process does not understand
    /// it.
    pub(crate) fn on_message(
        &mut self,
        lines: &mut Lines,
        line: LineId,
        control: Control<'_>,
        payload: Option<Raw<'_>>,
    ) -> Result<(), Refusal> {
        match control {
            Control::Send { to } => {
                return self.on_mail(lines, line, Place::of_pid(&self.me, to), payload);
            }
            Control::SendNamed { to, .. } => {
                return self.on_mail(lines, line, Place::named(to), payload);
            }
            Control::Link { from, to } => {
                if Place::of_pid(&self.me, to).is_none() {
                    lines.control(line, |out| control::exit_no_process(out, to, from));
                }
            }
            Control::Unlink { id, from, to } => {
                lines.control(line, |out| control::unlink_acknowledged(out, id, to, from));
            }
            Control::Monitor {
                from,
                of,
                reference,
            } => {
                let place = match of.view() {
                    Term::Atom(name) => Place::named(name),
                    Term::Pid(pid) => Place::of_pid(&self.me, pid),
                    _ => None,
                };
                // Those who are there stay as long as the connection does, whose end tells of theirs.
                if place.is_none() {
                    lines.control(line, |out| control::no_process(out, of, from, reference));
                }
            }
            Control::Down { reference, .. } => self.on_down(line, reference),
            Control::Other => {}
        }
        Ok(())
    }

    fn on_mail(
        &mut self,
        lines: &mut Lines,
        line: LineId,
        place: Option<Place>,
        payload: Option<Raw<'_>>,
    ) -> Result<(), Refusal> {
        let (Some(place), Some(payload)) = (place, payload) else {
            return Err(Refusal::NotUnderstood);
        };
        if let Some([kind, from, request]) = payload.tuple()
            && kind.is_atom("$gen_call")
            && from.bytes().len() <= CALLER_BYTES_MAX
        {
            self.on_request(lines, line, place, Some(from), request);
        } else if let Some([kind, request]) = payload.tuple()
            && kind.is_atom("$gen_cast")
        {
            self.on_request(lines, line, place, None, request);
        } else if place == Place::Any {
            return self.on_any(payload);
        } else {
            return Err(Refusal::NotUnderstood);
        }
        Ok(())
    }

    /// Acts on a call, or on a cast, which has nobody to answer.
    fn on_request(
        &mut self,
        lines: &mut Lines,
        line: LineId,
        place: Place,
        from: Option<Raw<'_>>,
        request: Raw<'_>,
    ) {
        match place {
            Place::NetKernel => self.on_ping(lines, line, from, request),
            Place::Router => self.on_router(lines, line, from, request),
            Place::Subsmanager => self.on_subsmanager(lines, line, from, request),
            Place::Any => refuse(
                lines,
                line,
                from,
                "any takes messages {Id, Body}, and no calls",
            ),
        }
    }

    /// `net_adm:ping` asks whether this node takes it for one that knows the cookie.
    fn on_ping(
        &mut self,
        lines: &mut Lines,
        line: LineId,
        from: Option<Raw<'_>>,
        request: Raw<'_>,
    ) {
        match request.tuple() {
            Some([question, _]) if question.is_atom("is_auth") => {
                answer(lines, line, from, |out| write::atom(out, "yes"));
            }
            _ => refuse(
                lines,
                line,
                from,
                "net_kernel answers to is_auth alone here",
            ),
        }
    }

    /// Who answers here, for `global:register_name` and the like.
    fn answer_pid(&self, lines: &mut Lines, line: LineId, from: Option<Raw<'_>>, place: Place) {
        answer(lines, line, from, |out| place.write_pid(&self.me, out));
    }
}

/// Answers a call: `{Tag, Reply}`, to the alias that the caller waits with if it has one, so that an answer
/// that comes too late is dropped.
fn answer(
    lines: &mut Lines,
    line: LineId,
    from: Option<Raw<'_>>,
    reply: impl FnOnce(&mut Vec<u8>),
) {
    let Some([pid, tag]) = from.and_then(Raw::tuple) else {
        return;
    };
    let (Some(to), Some(node)) = (
        pid.pid(),
        lines.get(line).and_then(|line| line.peer.clone()),
    ) else {
        return;
    };
    // Who calls on behalf of a process elsewhere is answered there.
    let line = if to.node.is(&node.name) {
        Some(line)
    } else {
        lines.find(&to.node.text())
    };
    let Some(line) = line.filter(|&line| lines.get(line).is_some_and(|line| line.is_up)) else {
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
        Some(alias) => lines.message(
            line,
            |out| control::alias_send(out, |out| write::raw(out, pid), alias),
            message,
        ),
        None => lines.message(
            line,
            |out| control::send(out, |out| write::raw(out, pid)),
            message,
        ),
    }
}

/// Answers `{error, Sentence}`.
fn refuse(lines: &mut Lines, line: LineId, from: Option<Raw<'_>>, sentence: &str) {
    answer(lines, line, from, |out| {
        write::tuple(out, 2);
        write::atom(out, "error");
        write::binary(out, sentence.as_bytes());
    });
}

/// Answers `ok`, or why not.
fn answer_done(lines: &mut Lines, line: LineId, from: Option<Raw<'_>>, done: Result<(), Refused>) {
    match done {
        Ok(()) => answer(lines, line, from, |out| write::atom(out, "ok")),
        Err(sentence) => refuse(lines, line, from, &sentence),
    }
}
