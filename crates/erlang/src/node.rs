//! The node: what it takes from its connections, and what it answers.
//!
//! Takes bytes and the time, gives bytes and what is to be done. Must never touch a socket, a thread or a
//! clock.

mod peers;
mod deadlines;

use std::sync::Arc;
use std::time::Duration;

use reactor::{SlotKey, Tick};
use router::{Counts, Mailboxes, Parcel, Router, WorkerId};
use server::SessionReport;

use crate::desk::{Delivered, Desk};
use crate::handshake::Me;
use crate::lines::{LineId, Lines};
use crate::link::{Event, Link};
use crate::metrics::{Metric, NodeCounters};
use crate::name::NodeName;
use crate::refusal::Refusal;

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
    pub(crate) metrics: Arc<NodeCounters>,
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

/// The identity and the limits of the node.
pub(crate) struct Config {
    pub(crate) me: Me,
    /// The node's number among the server's workers.
    pub(crate) worker: WorkerId,
    pub(crate) event_bytes_max: usize,
    pub(crate) tick_time: Duration,
    /// Nodes to stay connected with.
    pub(crate) connect: Vec<NodeName>,
}

impl<M: Mailboxes> Node<M> {
    pub(crate) fn new(
        config: Config,
        router: Arc<Router<M>>,
        metrics: Arc<NodeCounters>,
        ring: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let Config {
            me,
            worker,
            event_bytes_max,
            tick_time,
            connect,
        } = config;
        let wanted = connect.into_iter().map(|name| Wanted {
            name,
            next: Tick(0),
            delay: REDIAL.0,
        });
        Self {
            lines: Lines::default(),
            desk: Desk::new(me, router, worker, event_bytes_max, metrics.clone(), ring),
            effects: Vec::new(),
            metrics,
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
                    self.metrics.add(Metric::Messages, 1);
                    let done = self.desk.on_message(&mut self.lines, id, control, payload);
                    self.take_wishes();
                    if let Err(refusal) = done {
                        self.refuse(id, &link, refusal);
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

    /// Counts what is not taken, and logs it once in a while.
    fn refuse(&mut self, id: LineId, link: &Link, refusal: Refusal) {
        let kind = refusal.kind();
        self.metrics.add(Refusal::METRICS[kind], 1);
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
    pub(crate) fn report(&mut self, recipients: &[SlotKey]) -> Vec<SessionReport> {
        self.desk.report(&self.lines, recipients)
    }

    /// Ends sessions that the operator closes.
    pub(crate) fn close_sessions(&mut self, recipients: &[SlotKey]) {
        self.desk.close(&mut self.lines, recipients);
    }
}

#[cfg(test)]
mod tests;
