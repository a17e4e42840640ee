//! Membership: which nodes are heard of, and which are to be declared gone.
//!
//! Silence only makes a node propose a `NodeGone`. That a node is gone is decided by the entry,
//! which all nodes read at the same place.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::incarnation::Incarnation;
use crate::message::Heartbeat;
use crate::place::StreamSequence;
use crate::report::Report;
use crate::status::NodeStatus;
use crate::table::Table;

/// Time between two heartbeats of a node.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);

/// Silence after which a node is to be declared gone, and time after which that is repeated if it
/// has not come to the log.
pub const SILENT_AFTER: Duration = Duration::from_secs(5);

/// Time without a call after which this node itself has stood still: what others sent meanwhile
/// still waits to be read, so that their silence says nothing.
pub const STOOD_STILL_AFTER: Duration = Duration::from_secs(2);

/// Nodes that this one hears of. Owned by its driver.
#[derive(Debug, Default)]
pub struct Membership {
    /// Live incarnations, as the log says.
    nodes: BTreeMap<Incarnation, Node>,
    polled: Duration,
    next_heartbeat: Duration,
}

#[derive(Debug)]
struct Node {
    name: Box<str>,
    version: Box<str>,
    /// Sequence of its first entry.
    since: StreamSequence,
    heartbeat: Option<Heartbeat>,
    report: Option<Report>,
    /// When it was last heard of, or when silence began to count.
    heard: Duration,
    /// When it is to be declared gone at the earliest: it was proposed before.
    not_before: Duration,
}

impl Membership {
    /// Takes over the live incarnations from the log: at the start, and whenever one has begun or
    /// ended.
    pub fn sync(&mut self, now: Duration, table: &Table) {
        self.nodes.retain(|&it, _| table.member(it).is_some());
        for (incarnation, member) in table.members() {
            self.nodes.entry(incarnation).or_insert_with(|| Node {
                name: member.name.clone(),
                version: member.version.clone(),
                since: member.since,
                heartbeat: None,
                report: None,
                heard: now,
                not_before: Duration::ZERO,
            });
        }
    }

    /// Takes in a heartbeat. One of an incarnation that is not in the log's table says nothing.
    pub fn heartbeat(&mut self, now: Duration, heartbeat: Heartbeat) {
        if let Some(node) = self.nodes.get_mut(&heartbeat.incarnation) {
            node.heard = now;
            node.heartbeat = Some(heartbeat);
        }
    }

    /// Takes in a report, which says nothing about silence. One of an incarnation that is not in
    /// the log's table says nothing at all.
    pub fn report(&mut self, report: Report) {
        if let Some(node) = self.nodes.get_mut(&report.incarnation) {
            node.report = Some(report);
        }
    }

    /// Returns the node of this name that was heard last.
    pub fn find(&self, now: Duration, name: &str) -> Option<NodeStatus> {
        let nodes = self.status(now).into_iter();
        let named = nodes.filter(|node| *node.name == *name);
        named.min_by_key(|node| node.silent)
    }

    /// Returns the node that has the name of `own`, came into the log before it, and lives on: it
    /// has applied the first entry of `own`. Of two nodes with one name the one that came first
    /// stays, and all agree which one that is. A node that was killed has applied nothing since,
    /// so the one that is started in its place finds none.
    pub fn namesake(&self, own: Incarnation) -> Option<Incarnation> {
        let this = self.nodes.get(&own)?;
        let is_earlier = |node: &Node| node.name == this.name && node.since < this.since;
        let lives_on = |node: &Node| {
            let heartbeat = node.heartbeat.as_ref();
            heartbeat.is_some_and(|heartbeat| heartbeat.applied >= this.since)
        };
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(_, node)| is_earlier(node) && lives_on(node));
        found.map(|(&incarnation, _)| incarnation)
    }

    /// Lets silence count from now on: this node was cut off, and could not have heard anything.
    pub fn reset(&mut self, now: Duration) {
        for node in self.nodes.values_mut() {
            node.heard = now;
        }
    }

    /// Returns the incarnations for which to append a `NodeGone`. To be called several times a
    /// second, after what came from other nodes was taken in. `own` is never among them.
    pub fn poll_gone(&mut self, now: Duration, own: Option<Incarnation>) -> Vec<Incarnation> {
        if now > self.polled + STOOD_STILL_AFTER {
            self.reset(now);
        }
        self.polled = now;
        let mut gone = Vec::new();
        for (&incarnation, node) in &mut self.nodes {
            let is_due = now >= node.heard + SILENT_AFTER && now >= node.not_before;
            if is_due && own != Some(incarnation) {
                node.not_before = now + SILENT_AFTER;
                gone.push(incarnation);
            }
        }
        gone
    }

    /// Returns whether all nodes of the cluster are heard, beside `own`, which needs no messages to
    /// be there.
    pub fn hears_all(&self, now: Duration, own: Option<Incarnation>) -> bool {
        let mut others = self.nodes.iter().filter(|(it, _)| own != Some(**it));
        others.all(|(_, node)| now < node.heard + SILENT_AFTER)
    }

    /// Returns whether this node must send a heartbeat now. It is then taken as sent.
    pub fn poll_heartbeat(&mut self, now: Duration) -> bool {
        let is_due = now >= self.next_heartbeat;
        if is_due {
            self.next_heartbeat = now + HEARTBEAT_EVERY;
        }
        is_due
    }

    /// Returns the nodes of the cluster, by name.
    pub fn status(&self, now: Duration) -> Vec<NodeStatus> {
        let status = |(&incarnation, node): (&Incarnation, &Node)| {
            let heartbeat = node.heartbeat.as_ref();
            NodeStatus {
                name: node.name.clone(),
                version: node.version.clone(),
                incarnation,
                applied: heartbeat.map(|it| it.applied).unwrap_or_default(),
                sessions: heartbeat.map(|it| it.sessions).unwrap_or_default(),
                silent: now.saturating_sub(node.heard),
                state: node.report.map(|it| it.state).unwrap_or_default(),
                counters: node.report.map(|it| it.counters).unwrap_or_default(),
            }
        };
        let mut nodes: Vec<_> = self.nodes.iter().map(status).collect();
        nodes.sort_by(|a, b| (&a.name, a.incarnation).cmp(&(&b.name, b.incarnation)));
        nodes
    }
}
