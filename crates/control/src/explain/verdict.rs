//! The verdict on a subject and a subscriber, from what a node knows.
//!
//! Owns the words of the answer, which programs rely on. Must never ask anybody anything.

use auth::UnixSeconds;
use graph::Id;
use serde::Serialize;
use server::{SessionReport, Standing};

/// What a node knows of a subject and a subscriber.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) subject: Id,
    pub(super) subscriber: Id,
    /// The subscriber has an edge to the subject, or is the subject.
    pub(super) has_edge: bool,
    /// Sessions of the subscriber on this node.
    pub(super) total: usize,
    /// Those of them that were looked at.
    pub(super) sessions: Vec<SessionFacts>,
    pub(super) standing: Standing,
    /// How often sessions of the subscriber were closed for being slow, as far as it is remembered.
    pub(super) closed_slow: u64,
    pub(super) has_history: bool,
    pub(super) now: UnixSeconds,
    pub(super) is_draining: bool,
    /// Those of the two ids that hide.
    pub(super) hidden: Vec<Id>,
    /// This node, in a cluster.
    pub(super) node: Option<NodeFacts>,
}

/// What a node knows of a session.
#[derive(Debug)]
pub(super) struct SessionFacts {
    pub(super) report: SessionReport,
    /// The id by which it gets the event.
    pub(super) via: Option<Id>,
}

/// A node of a cluster.
#[derive(Debug)]
pub(super) struct NodeFacts {
    pub(super) name: Box<str>,
    /// Why it does not follow the log, if it does not.
    pub(super) not_ready: Option<Box<str>>,
    /// Names of the other nodes on which the subscriber is online, if that is known.
    pub(super) others: Option<Vec<Box<str>>>,
}

/// Whether the subscriber would get the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// At least one of its sessions would get it at once.
    Yes,
    /// Its sessions would get it after what they are owed.
    Late,
    /// It would not.
    No,
    /// Another node knows.
    Unknown,
}

/// What a reason does to the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Effect {
    Delivers,
    Delays,
    Prevents,
    /// Nothing now; it helps to understand what happened, or what comes.
    Informs,
}

/// A reason of a verdict.
#[derive(Debug, Serialize)]
pub(super) struct Reason {
    /// A word that does not change between versions.
    pub(super) reason: &'static str,
    pub(super) effect: Effect,
    /// The reason as a sentence.
    pub(super) detail: String,
}

impl Facts {
    /// Returns the verdict, a sentence that says it, and the reasons, those that decide first.
    pub(super) fn explain(&self) -> (Verdict, String, Vec<Reason>) {
        let mut reasons = vec![self.edge()];
        reasons.extend(self.other_ids());
        reasons.push(self.online());
        reasons.extend(self.delays());
        reasons.extend(self.identity());
        reasons.extend(self.hiding());
        reasons.extend(self.past());
        reasons.extend(self.node());
        let verdict = self.verdict();
        (verdict, self.summary(verdict), reasons)
    }

    fn verdict(&self) -> Verdict {
        let is_late = self
            .node
            .as_ref()
            .is_some_and(|node| node.not_ready.is_some());
        if self.receivers().next().is_some() {
            let is_at_once = !is_late && self.receivers().any(SessionFacts::is_live);
            return if is_at_once {
                Verdict::Yes
            } else {
                Verdict::Late
            };
        }
        match self.may_be_elsewhere() && self.has_edge && self.total == 0 {
            true => Verdict::Unknown,
            false => Verdict::No,
        }
    }

    /// Returns whether the subscriber is online on another node, or that is not known.
    fn may_be_elsewhere(&self) -> bool {
        let others = self.node.as_ref().map(|node| node.others.as_deref());
        others.is_some_and(|others| others.is_none_or(|others| !others.is_empty()))
    }

    /// Returns the other nodes on which the subscriber is known to be online, as a part of a
    /// sentence.
    fn elsewhere(&self) -> Option<String> {
        let others = self.node.as_ref()?.others.as_deref()?;
        let names: Vec<String> = others.iter().map(|name| format!("`{name}`")).collect();
        match names.len() {
            0 => None,
            1 => Some(format!("the node {}", names[0])),
            _ => Some(format!("the nodes {}", names.join(", "))),
        }
    }

    /// Returns the sessions that would get the event.
    fn receivers(&self) -> impl Iterator<Item = &SessionFacts> {
        self.sessions.iter().filter(|session| session.via.is_some())
    }

    fn summary(&self, verdict: Verdict) -> String {
        let (subject, subscriber) = (&self.subject, &self.subscriber);
        let event = format!("what is published about `{subject}` now");
        let count = self.receivers().count();
        match verdict {
            Verdict::Yes => {
                let live = self.receivers().filter(|session| session.is_live()).count();
                let live = sessions(live);
                format!("`{subscriber}` would get {event}, at once on {live}.")
            }
            Verdict::Late => format!(
                "`{subscriber}` would get {event} later: its {} must get earlier events first.",
                sessions(count)
            ),
            Verdict::No if self.has_edge => {
                format!("`{subscriber}` would not get {event}, because it is not online.")
            }
            Verdict::No => {
                format!("`{subscriber}` would not get {event}, because it is not subscribed to it.")
            }
            Verdict::Unknown => match self.elsewhere() {
                Some(nodes) => format!(
                    "`{subscriber}` is online on {nodes} and not on this node; ask there whether \
                     it would get {event} at once."
                ),
                None => format!(
                    "`{subscriber}` is not online on this node; whether it would get {event} \
                     depends on the other nodes."
                ),
            },
        }
    }

    fn edge(&self) -> Reason {
        let (subject, subscriber) = (&self.subject, &self.subscriber);
        if subject == subscriber {
            let detail = "Every id is subscribed to itself.".to_owned();
            return Reason::new("self", Effect::Delivers, detail);
        }
        match self.has_edge {
            true => Reason::new(
                "edge",
                Effect::Delivers,
                format!("`{subscriber}` is subscribed to `{subject}`."),
            ),
            false => Reason::new(
                "no_edge",
                Effect::Prevents,
                format!(
                    "`{subscriber}` is not subscribed to `{subject}`. Subscribe it with PUT \
                     /v1/subscriptions/{{subscriber}}/{{subject}} or `encke subscribe`."
                ),
            ),
        }
    }

    /// Sessions that get the event although the subscriber has no edge: they have other ids too.
    fn other_ids(&self) -> Option<Reason> {
        let mut others = self.receivers().filter(|_| !self.has_edge);
        let via = others.next()?.via.as_ref()?;
        let count = sessions(1 + others.count());
        let detail = format!(
            "{count} of `{}` would get it all the same: logged in as `{via}` too, for example.",
            self.subscriber
        );
        Some(Reason::new("other_id", Effect::Delivers, detail))
    }

    fn online(&self) -> Reason {
        let subscriber = &self.subscriber;
        if self.total > 0 {
            let mut detail = format!("`{subscriber}` has {} here.", sessions(self.total));
            if self.sessions.len() < self.total {
                let shown = self.sessions.len();
                detail.push_str(&format!(" {shown} of them were looked at."));
            }
            if let Some(nodes) = self.elsewhere() {
                detail.push_str(&format!(" It is online on {nodes} too."));
            }
            return Reason::new("online", Effect::Informs, detail);
        }
        if let Some(nodes) = self.elsewhere() {
            let detail = format!("`{subscriber}` has no session here. It is online on {nodes}.");
            return Reason::new("online_elsewhere", Effect::Informs, detail);
        }
        let kept = match self.has_history {
            true => {
                "The event is kept in the history; a client that returns with its cursor gets it."
            }
            false => "There is no history, so the event is lost for it.",
        };
        let has_nodes = self.node.is_some() && !self.may_be_elsewhere();
        let place = if has_nodes { "on any node" } else { "here" };
        let detail = format!("`{subscriber}` has no session {place}. {kept}");
        Reason::new("not_online", Effect::Prevents, detail)
    }

    fn delays(&self) -> Vec<Reason> {
        let count = |is: fn(&SessionFacts) -> bool| self.receivers().filter(|s| is(s)).count();
        let (behind, waiting) = (count(|s| s.report.is_behind), count(SessionFacts::waits));
        let mut reasons = Vec::new();
        if behind > 0 {
            let detail = format!(
                "{} reading on from the history, and gets the event when it comes to it.",
                of_sessions(behind)
            );
            reasons.push(Reason::new("behind", Effect::Delays, detail));
        }
        if waiting > 0 {
            let detail = format!(
                "{} full: its client does not read as fast as events come. GET /v1/slowest lists \
                 such sessions.",
                of_sockets(waiting)
            );
            reasons.push(Reason::new("backlog", Effect::Delays, detail));
        }
        reasons
    }

    fn identity(&self) -> Vec<Reason> {
        let subscriber = &self.subscriber;
        let mut reasons = Vec::new();
        if let Some(until) = self.standing.banned_until {
            let seconds = until.seconds_since(self.now);
            let detail = format!(
                "`{subscriber}` is banned for another {seconds} s: it cannot log in. Sessions that \
                 are open stay open, unless they are closed."
            );
            reasons.push(Reason::new("banned", Effect::Informs, detail));
        }
        if let Some(before) = self.standing.revoked_before {
            let detail = format!(
                "Tokens and tickets of `{subscriber}` that were issued before {before} (seconds \
                 since 1970) are revoked. Its clients need newer ones to log in."
            );
            reasons.push(Reason::new("revoked", Effect::Informs, detail));
        }
        if self.standing.needs_identity && self.total == 0 {
            let detail = format!(
                "Clients need a token or a ticket that allows them to read `{subscriber}`. Refused \
                 logins are counted by reason in encke_logins_denied_total."
            );
            reasons.push(Reason::new("needs_identity", Effect::Informs, detail));
        }
        reasons
    }

    /// Ids that hide: events are not concerned, but whoever waits for a notice of presence is.
    fn hiding(&self) -> impl Iterator<Item = Reason> {
        self.hidden.iter().map(|id| {
            let detail = format!(
                "`{id}` hides: it looks offline to those who follow it, and events reach it as \
                 ever. PUT /v1/presence/{{id}} shows it again."
            );
            Reason::new("hidden", Effect::Informs, detail)
        })
    }

    fn past(&self) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let gaps = self
            .sessions
            .iter()
            .filter_map(|session| session.report.last_gap);
        if let Some(gap) = gaps.min_by_key(|gap| gap.ago) {
            let detail = format!(
                "A session was told {} s ago that it lost {} events: it read too slowly, or its \
                 worker was overloaded.",
                gap.ago.as_secs(),
                gap.lost
            );
            reasons.push(Reason::new("gap", Effect::Informs, detail));
        }
        if self.closed_slow > 0 {
            let detail = format!(
                "Sessions of `{}` were closed {} times because they read too slowly.",
                self.subscriber, self.closed_slow
            );
            reasons.push(Reason::new("closed_slow", Effect::Informs, detail));
        }
        if self.is_draining {
            let detail = "The server is draining: its sessions are about to end.".to_owned();
            reasons.push(Reason::new("draining", Effect::Informs, detail));
        }
        reasons
    }

    fn node(&self) -> Vec<Reason> {
        let Some(node) = &self.node else {
            return Vec::new();
        };
        let mut reasons = Vec::new();
        if let Some(why) = &node.not_ready {
            let detail = format!("The node `{}` does not follow the log: {why}.", node.name);
            reasons.push(Reason::new("node_behind", Effect::Delays, detail));
        }
        if self.may_be_elsewhere() {
            let detail = format!(
                "This is what the node `{}` knows. Sessions of `{}` on other nodes are not in it: \
                 ask those.",
                node.name, self.subscriber
            );
            reasons.push(Reason::new("one_node", Effect::Informs, detail));
        }
        reasons
    }
}

impl SessionFacts {
    /// Returns whether an event would be written to it at once.
    const fn is_live(&self) -> bool {
        !self.report.is_behind && !self.waits()
    }

    /// Returns whether events wait for its full socket.
    const fn waits(&self) -> bool {
        self.report.backlog_frames > 0
    }
}

impl Reason {
    const fn new(reason: &'static str, effect: Effect, detail: String) -> Self {
        Self {
            reason,
            effect,
            detail,
        }
    }
}

fn sessions(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} session{plural}")
}

fn of_sessions(count: usize) -> String {
    match count {
        1 => "1 session is".to_owned(),
        _ => format!("{count} sessions are each"),
    }
}

fn of_sockets(count: usize) -> String {
    match count {
        1 => "The socket of 1 session is".to_owned(),
        _ => format!("The sockets of {count} sessions are each"),
    }
}
