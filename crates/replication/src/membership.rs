//! Membership: which nodes send heartbeats, and which are to be declared gone.
//!
//! Silence only makes a node append a `NodeGone`. A node is gone when that entry is read, which is
//! at the same position for all nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::incarnation::Incarnation;
use crate::message::Heartbeat;
use crate::report::Report;
use crate::status::NodeStatus;
use crate::table::{Member, Table};

/// Time between two heartbeats of a node.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);

/// Silence after which a node is to be declared gone, and time after which that is repeated if the
/// `NodeGone` has not been read.
pub const SILENT_AFTER: Duration = Duration::from_secs(5);

/// Time without a call after which this node itself was stalled: heartbeats of other nodes may be
/// unread, so their silence means nothing.
pub const STOOD_STILL_AFTER: Duration = Duration::from_secs(2);

/// The other nodes and their heartbeats. Owned by the driver of the node.
#[derive(Debug, Default)]
pub struct Membership {
    /// Live incarnations according to the log.
    nodes: BTreeMap<Incarnation, Node>,
    polled: Duration,
    next_heartbeat: Duration,
}

#[derive(Debug)]
struct Node {
    /// Name, version and first entry of the node.
    member: Member,
    heartbeat: Option<Heartbeat>,
    report: Option<Report>,
    /// Time of the last heartbeat, or when silence began to count.
    heard: Duration,
    /// Earliest time to declare the node gone, as it was declared before.
    gone_at_earliest: Duration,
}

impl Membership {
    /// Takes the live incarnations from the log. To be called at the start, and whenever one has
    /// begun or ended.
    pub fn sync(&mut self, now: Duration, table: &Table) {
        self.nodes.retain(|&it, _| table.member(it).is_some());
        for (incarnation, member) in table.members() {
            self.nodes.entry(incarnation).or_insert_with(|| Node {
                member: member.clone(),
                heartbeat: None,
                report: None,
                heard: now,
                gone_at_earliest: Duration::ZERO,
            });
        }
    }

    /// Records a heartbeat. One of an incarnation that is not in the table is ignored.
    pub fn heartbeat(&mut self, now: Duration, heartbeat: Heartbeat) {
        if let Some(node) = self.nodes.get_mut(&heartbeat.incarnation) {
            node.heard = now;
            node.heartbeat = Some(heartbeat);
        }
    }

    /// Records a report, which does not end silence. One of an incarnation that is not in the table
    /// is ignored.
    pub fn report(&mut self, report: Report) {
        if let Some(node) = self.nodes.get_mut(&report.incarnation) {
            node.report = Some(report);
        }
    }

    /// Returns the node of this name with the most recent heartbeat.
    pub fn find(&self, now: Duration, name: &str) -> Option<NodeStatus> {
        let nodes = self.status(now).into_iter();
        let named = nodes.filter(|node| *node.name == *name);
        named.min_by_key(|node| node.silent)
    }

    /// Returns a node that has the same name as `own`, joined the log earlier, and is still alive,
    /// as it has applied the first entry of `own`. Of two nodes with one name the earlier one
    /// stays, and both agree which one that is. A killed node applies no later entries, so its
    /// replacement finds no namesake.
    pub fn namesake(&self, own: Incarnation) -> Option<Incarnation> {
        let this = &self.nodes.get(&own)?.member;
        let is_earlier = |node: &Member| node.name == this.name && node.since < this.since;
        let lives_on = |node: &Node| {
            let heartbeat = node.heartbeat.as_ref();
            heartbeat.is_some_and(|heartbeat| heartbeat.applied >= this.since)
        };
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(_, node)| is_earlier(&node.member) && lives_on(node));
        found.map(|(&incarnation, _)| incarnation)
    }

    /// Counts silence from now on, as this node was disconnected and could not receive heartbeats.
    pub fn reset(&mut self, now: Duration) {
        for node in self.nodes.values_mut() {
            node.heard = now;
        }
    }

    /// Returns the incarnations for which to append a `NodeGone`. To be called several times a
    /// second, after the heartbeats received were recorded. `own` is never among them.
    pub fn poll_gone(&mut self, now: Duration, own: Option<Incarnation>) -> Vec<Incarnation> {
        if now > self.polled + STOOD_STILL_AFTER {
            self.reset(now);
        }
        self.polled = now;
        let mut gone = Vec::new();
        for (&incarnation, node) in &mut self.nodes {
            let is_due = now >= node.heard + SILENT_AFTER && now >= node.gone_at_earliest;
            if is_due && own != Some(incarnation) {
                node.gone_at_earliest = now + SILENT_AFTER;
                gone.push(incarnation);
            }
        }
        gone
    }

    /// Returns whether no node of the cluster except `own` is silent.
    pub fn hears_all(&self, now: Duration, own: Option<Incarnation>) -> bool {
        let mut others = self.nodes.iter().filter(|(it, _)| own != Some(**it));
        others.all(|(_, node)| now < node.heard + SILENT_AFTER)
    }

    /// Returns whether this node must send a heartbeat now. If so, the next one is due
    /// [`HEARTBEAT_EVERY`] later.
    pub fn poll_heartbeat(&mut self, now: Duration) -> bool {
        let is_due = now >= self.next_heartbeat;
        if is_due {
            self.next_heartbeat = now + HEARTBEAT_EVERY;
        }
        is_due
    }

    /// Returns the nodes of the cluster, sorted by name.
    pub fn status(&self, now: Duration) -> Vec<NodeStatus> {
        let status = |(&incarnation, node): (&Incarnation, &Node)| {
            let heartbeat = node.heartbeat.as_ref();
            NodeStatus {
                name: node.member.name.clone(),
                version: node.member.version.clone(),
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
