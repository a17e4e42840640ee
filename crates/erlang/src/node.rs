//! The node: its connections, and who is at the other end of each.
//!
//! Takes bytes and the time, gives bytes and what is to be done. Must never touch a socket, a thread or a
//! clock.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use reactor::Tick;
use router::{Counts, Mailboxes, Parcel, Router, Target, WorkerId};
use server::SessionReport;

use crate::desk::{Delivered, Desk};
use crate::handshake::{Admission, Me};
use crate::limits::{HANDSHAKE_TIME, LINKS_MAX, LOOK_AGAIN, STALL_TIME, SWEPT_PER_TURN};
use crate::lines::{LineId, Lines, Remote};
use crate::link::{Event, Link};
use crate::name::NodeName;
use crate::refusal::Refusal;

/// Signs of life sent in the time after which a silent peer is gone, as in Erlang.
const TICKS: u32 = 4;

/// How soon a node that is wanted is called again, at first and at most.
const REDIAL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// How often a kind of refusal may be logged.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Call a node, and tell with [`Node::dialed`].
    Dial(LineId, NodeName),
    /// Close a connection when what it is owed is sent or cannot be.
    Close(LineId, Vec<u8>),
}

/// What the node is and does.
pub(crate) struct Node<M> {
    pub(crate) lines: Lines,
    pub(crate) desk: Desk<M>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) figures: Figures,
    now: Tick,
    tick_time: Duration,
    wanted: Vec<Wanted>,
    /// Where the search for sessions of nodes that are gone goes on.
    sweep_at: Option<u32>,
    delivered: Vec<Delivered>,
    logged: [Option<Tick>; Refusal::KINDS],
}

/// A node that is called until it answers.
struct Wanted {
    name: NodeName,
    next: Tick,
    delay: Duration,
}

/// What the node counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) nodes: u64,
    pub(crate) messages: u64,
    pub(crate) refused: [u64; Refusal::KINDS],
}

impl<M: Mailboxes> Node<M> {
    pub(crate) fn new(
        me: Me,
        router: Arc<Router<M>>,
        worker: WorkerId,
        event_bytes_max: usize,
        tick_time: Duration,
        connect: Vec<NodeName>,
        ring: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let wanted = connect.into_iter().map(|name| Wanted {
            name,
            next: Tick(0),
            delay: REDIAL.0,
        });
        Self {
            lines: Lines::default(),
            desk: Desk::new(me, router, worker, event_bytes_max, ring),
            effects: Vec::new(),
            figures: Figures::default(),
            now: Tick(0),
            tick_time,
            wanted: wanted.collect(),
            sweep_at: None,
            delivered: Vec::new(),
            logged: [None; Refusal::KINDS],
        }
    }

    /// Nothing happens at another time until this is called again.
    pub(crate) const fn set_time(&mut self, now: Tick) {
        self.now = now;
        self.desk.now = now;
    }

    /// A node calls. `None` turns it away, as there are too many.
    pub(crate) fn accepted(&mut self, address: SocketAddr, challenge: u32) -> Option<LineId> {
        if self.lines.len() >= LINKS_MAX {
            return None;
        }
        let line = self
            .lines
            .open(self.now, Some(Link::called(challenge)), false);
        if let Some(line) = self.lines.get_mut(line) {
            line.address = Some(address);
        }
        Some(line)
    }

    /// A call was answered, by a node that speaks the handshake up to `version`. Whether it is still wanted.
    pub(crate) fn dialed(
        &mut self,
        id: LineId,
        address: SocketAddr,
        version: u16,
        challenge: u32,
    ) -> bool {
        let Some(line) = self.lines.touch(id) else {
            return false;
        };
        let Some(remote) = line.peer.clone() else {
            return false;
        };
        line.began = self.now;
        line.heard = self.now;
        line.address = Some(address);
        let out = line.out.bytes_mut();
        let link = Link::calling(&self.desk.me, &remote.name, version, challenge, out);
        line.link = Some(link);
        true
    }

    /// Takes bytes of a connection.
    pub(crate) fn receive(&mut self, id: LineId, mut input: &[u8]) {
        let Some(line) = self.lines.get_mut(id) else {
            return;
        };
        line.heard = self.now;
        let Some(mut link) = line.link.take() else {
            return;
        };
        // What is read may close this very connection.
        while let Some(line) = self.lines.get_mut(id) {
            let was_empty = line.out.is_empty();
            let event = link.next(&self.desk.me, &mut input, line.out.bytes_mut());
            if was_empty && !line.out.is_empty() {
                self.lines.touch(id);
            }
            match event {
                Ok(None) => break,
                Ok(Some(Event::Nothing)) => {}
                Ok(Some(Event::Message(control, payload))) => {
                    self.figures.messages += 1;
                    let before = self.desk.not_understood;
                    self.desk.on_message(&mut self.lines, id, control, payload);
                    self.take_wishes();
                    if self.desk.not_understood != before {
                        self.refuse(id, &link, Refusal::NotUnderstood);
                    }
                }
                Ok(Some(Event::Named)) => self.admit(id, &mut link),
                Ok(Some(Event::Up)) => self.on_up(id, &link),
                Ok(Some(Event::Refused(refusal))) => self.refuse(id, &link, refusal),
                Err(refusal) => {
                    self.refuse(id, &link, refusal);
                    self.close(id);
                }
            }
        }
        if let Some(line) = self.lines.get_mut(id) {
            line.link = Some(link);
        }
    }

    /// Decides about a caller that has said its name.
    fn admit(&mut self, id: LineId, link: &mut Link) {
        let name = &*link.peer().name;
        let known = self.lines.find(name).filter(|&known| known != id);
        let admission = match known.and_then(|known| Some((known, self.lines.get(known)?))) {
            None => Admission::Ok,
            Some((_, other)) if other.is_up => Admission::Alive,
            // Both call: of two calls that of the greater name is kept, as all nodes agree.
            Some((_, other)) if other.is_caller && self.desk.me.name.as_str() > name => {
                Admission::Nok
            }
            Some((other, line)) => {
                let is_simultaneous = line.is_caller;
                self.desk.move_all(other, id);
                self.close(other);
                if is_simultaneous {
                    Admission::Simultaneous
                } else {
                    Admission::Ok
                }
            }
        };
        if matches!(admission, Admission::Ok | Admission::Simultaneous) {
            self.lines.name(name, id);
        }
        let Some(line) = self.lines.touch(id) else {
            return;
        };
        let admitted = link.admit(&self.desk.me, admission, line.out.bytes_mut());
        if let Err(refusal) = admitted {
            if admission != Admission::Nok {
                self.refuse(id, link, refusal);
            }
            self.close(id);
        }
    }

    fn on_up(&mut self, id: LineId, link: &Link) {
        let peer = link.peer();
        // The peer has said that the earlier one is dead.
        if let Some(earlier) = self.lines.find(&peer.name)
            && earlier != id
        {
            self.close(earlier);
        }
        self.lines.name(&peer.name, id);
        let Some(line) = self.lines.touch(id) else {
            return;
        };
        let before = line.peer.replace(Rc::new(Remote {
            name: peer.name.clone(),
            creation: peer.creation,
            has_alias: peer.flags.has_alias(),
        }));
        line.is_up = true;
        line.out.set_header(peer.flags.has_fragments());
        self.figures.nodes += 1;
        tracing::info!("connected with the Erlang node {}", peer.name);
        if let Some(wanted) = self
            .wanted
            .iter_mut()
            .find(|w| w.name.as_str() == &*peer.name)
        {
            wanted.delay = REDIAL.0;
        }
        if before.is_some_and(|before| before.creation != 0 && before.creation != peer.creation) {
            self.desk.end_all(id);
        }
        self.desk.monitor_all(&mut self.lines, id);
    }

    /// A connection has ended, or a call was not answered.
    pub(crate) fn ended(&mut self, id: LineId) {
        self.close(id);
    }

    /// Forgets a connection, and closes it when what it is owed is sent.
    pub(crate) fn close(&mut self, id: LineId) {
        let Some(line) = self.lines.close(id) else {
            return;
        };
        if line.is_up {
            self.figures.nodes -= 1;
        }
        if let Some(remote) = &line.peer {
            if line.is_up {
                tracing::info!("the Erlang node {} is gone", remote.name);
            }
            if let Some(wanted) = self
                .wanted
                .iter_mut()
                .find(|w| w.name.as_str() == &*remote.name)
            {
                wanted.next = self.now.after(wanted.delay);
                wanted.delay = (wanted.delay * 2).min(REDIAL.1);
            }
        }
        if self.desk.sessions.len() > 0 {
            self.sweep_at = Some(0);
        }
        self.effects
            .push(Effect::Close(id, line.out.unsent().to_vec()));
    }

    /// Counts what is not taken, and logs it once in a while.
    fn refuse(&mut self, id: LineId, link: &Link, refusal: Refusal) {
        let kind = refusal.kind();
        self.figures.refused[kind] += 1;
        let is_logged = self.logged[kind].is_some_and(|at| self.now.since(at) < LOG_AGAIN);
        if !is_logged {
            self.logged[kind] = Some(self.now);
            let address = self.lines.get(id).and_then(|line| line.address);
            let address = address.map_or_else(|| "?".to_owned(), |address| address.to_string());
            let name = match &*link.peer().name {
                "" => "a node",
                name => name,
            };
            tracing::warn!("refused of {name} at {address}: {refusal}");
        }
    }

    /// Calls nodes whose processes have logged in by way of others.
    fn take_wishes(&mut self) {
        for line in self.desk.wanted.drain(..) {
            let name = self.lines.get(line).and_then(|line| line.peer.as_ref());
            if let Some(name) = name.and_then(|remote| remote.name.parse().ok()) {
                self.effects.push(Effect::Dial(line, name));
            }
        }
    }

    /// Does what is due: signs of life, deadlines, calls, sessions of nodes that are gone.
    pub(crate) fn meet_deadlines(&mut self) {
        let mut over = Vec::new();
        for (id, line) in self.lines.iter() {
            let is_stalled = line
                .stalled
                .is_some_and(|since| self.now.since(since) >= STALL_TIME);
            let refusal = if !line.is_up && self.now.since(line.began) >= HANDSHAKE_TIME {
                Some(Refusal::HandshakeSlow)
            } else if line.is_up && self.now.since(line.heard) >= self.tick_time {
                Some(Refusal::Silent)
            } else if line.is_up && is_stalled {
                Some(Refusal::Slow)
            } else {
                None
            };
            let is_to_tick = line.is_up && self.now.since(line.said) >= self.tick_time / TICKS;
            if refusal.is_some() || is_to_tick {
                over.push((id, refusal));
            }
        }
        for (id, refusal) in over {
            match refusal {
                Some(refusal) => self.give_up(id, refusal),
                None => {
                    if let Some(line) = self.lines.touch(id) {
                        line.said = self.now;
                        line.out.tick();
                    }
                }
            }
        }
        self.call_wanted();
        self.sweep();
    }

    fn give_up(&mut self, id: LineId, refusal: Refusal) {
        let link = self.lines.get_mut(id).and_then(|line| line.link.take());
        if let Some(link) = link {
            self.refuse(id, &link, refusal);
        }
        self.close(id);
    }

    fn call_wanted(&mut self) {
        for wanted in &mut self.wanted {
            let name = wanted.name.as_str();
            if self.now < wanted.next || self.lines.find(name).is_some() {
                continue;
            }
            let line = self.lines.open(self.now, None, true);
            if let Some(opened) = self.lines.get_mut(line) {
                opened.peer = Some(Rc::new(Remote {
                    name: name.into(),
                    creation: 0,
                    has_alias: false,
                }));
            }
            self.lines.name(name, line);
            self.effects.push(Effect::Dial(line, wanted.name.clone()));
        }
    }

    fn sweep(&mut self) {
        if let Some(at) = self.sweep_at {
            self.sweep_at = self.desk.sweep(&self.lines, at, SWEPT_PER_TURN);
        }
    }

    /// Whether there is work that waits for nothing.
    pub(crate) fn is_busy(&self) -> bool {
        self.sweep_at.is_some() || self.desk.calls.is_settled()
    }

    /// How long there may be nothing to do.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let is_idle = self.lines.len() == 0 && self.wanted.is_empty();
        (!is_idle).then(|| (self.tick_time / (4 * TICKS)).min(LOOK_AGAIN))
    }

    /// Whether a connection should be read on: its answers must have room.
    pub(crate) fn is_wanted(&self, id: LineId) -> bool {
        !self.lines.is_behind(id)
    }

    /// Bytes of messages of which not all has come.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn held_bytes(&self) -> usize {
        let links = self.lines.iter().filter_map(|(_, line)| line.link.as_ref());
        links.map(Link::held_bytes).sum()
    }

    /// Takes events for processes that are logged in here.
    pub(crate) fn deliver(&mut self, parcel: Parcel) {
        let delivered = self.desk.deliver(&mut self.lines, parcel);
        self.delivered.push(delivered);
    }

    /// What became of the parcels of this turn, now that all sockets were tried.
    pub(crate) fn take_delivered(&mut self) -> Vec<(Parcel, Counts)> {
        let lines = &self.lines;
        self.delivered
            .drain(..)
            .map(|delivered| {
                let counts = delivered.counts(lines);
                (delivered.parcel, counts)
            })
            .collect()
    }

    /// Answers calls whose receipts have come.
    pub(crate) fn answer_settled(&mut self) {
        self.desk.answer_settled(&mut self.lines);
    }

    /// What is told of sessions.
    pub(crate) fn report(&mut self, targets: &[Target]) -> Vec<SessionReport> {
        self.desk.report(&self.lines, targets)
    }

    /// Ends sessions that the operator closes.
    pub(crate) fn close_sessions(&mut self, targets: &[Target]) {
        self.desk.close(&mut self.lines, targets);
    }
}

#[cfg(test)]
mod tests;
