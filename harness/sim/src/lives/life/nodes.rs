//! Erlang nodes that connect, and their processes, which log in, follow, publish and end.

use std::collections::{BTreeMap, BTreeSet};

use erlang::sim::{SimPeer, SimRequest, SimSaid};
use server::sim::ClientState as State;
use simulated::Dice;

use super::session::{Bounds, Session};
use super::{Happened, Life, NAMES, name};
use crate::lives::publisher::{Asked, Edge, What};

/// Names of nodes, of which one sorts before that of the server, and one behind.
const NODES: [&str; 2] = ["a@h", "peer@h"];

/// Requests of a node that wait for their answers.
const ASKED_MAX: usize = 4;

/// A node that has connected. Lives as long as the process of the server.
pub(super) struct Node {
    peer: SimPeer,
    name: &'static str,
    /// It says and reads everything at once, and stays.
    is_faithful: bool,
    /// It says everything at once.
    is_prompt: bool,
    /// It never says that it is there.
    is_silent: bool,
    is_gone: bool,
    /// By number: what has no answer.
    asked: BTreeMap<u32, Asked>,
    processes: Vec<Process>,
}

/// A process that has asked to be logged in.
struct Process {
    number: u32,
    session: Session,
    /// Logins without an answer.
    coming: usize,
    /// Numbers of events, in the order in which they came.
    received: Vec<usize>,
}

impl Node {
    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session> + Clone {
        self.processes.iter().map(|it| &it.session)
    }

    pub(super) fn sessions_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.processes.iter_mut().map(|it| &mut it.session)
    }

    fn process(&mut self, number: u32) -> &mut Process {
        let process = self.processes.iter_mut().find(|it| it.number == number);
        process.unwrap_or_else(|| panic!("{}: process {number} has never logged in", self.name))
    }
}

impl Life {
    /// A node connects that is not connected.
    pub(super) fn connect_node(&mut self, dice: &mut Dice) {
        let (name, seed) = (NODES[dice.roll(NODES.len())], dice.roll(8));
        let (room, bite) = match dice.roll(4) {
            0 => (100 + dice.roll(600), usize::MAX),
            1 => (usize::MAX, 12 + dice.roll(300)),
            _ => (usize::MAX, usize::MAX),
        };
        if self.nodes.iter().any(|it| it.name == name && !it.is_gone) {
            return;
        }
        let is_faithful = seed > 0 && room == usize::MAX && bite == usize::MAX;
        self.note(|| format!("node {name} connects, and takes {room} bytes, {bite} at a time"));
        let creation = self.nodes.len() as u32 + 1;
        let node = &mut self.process.node;
        self.nodes.push(Node {
            peer: SimPeer::connect(node, (name, creation), room, bite),
            name,
            is_faithful,
            is_prompt: is_faithful,
            is_silent: seed == 0,
            is_gone: false,
            asked: BTreeMap::new(),
            processes: Vec::new(),
        });
        let nth = self.nodes.len() - 1;
        self.say_first_of(nth, dice);
    }

    /// A process of a node asks for something.
    pub(super) fn ask_of_node(&mut self, dice: &mut Dice) {
        let nth = dice.roll(self.nodes.len().max(1));
        let (kind, one, other) = (dice.roll(8), name(dice), name(dice));
        let (which, coin) = (dice.roll(8), dice.roll(2) == 0);
        let Some(node) = self.nodes.get(nth) else {
            return;
        };
        if node.is_gone || !node.peer.is_up() || node.asked.len() >= ASKED_MAX {
            return;
        }
        match kind {
            0..=1 => self.log_in(nth, BTreeSet::from([one, other])),
            2 => self.log_out(nth, which, coin),
            3..=4 => self.publish_from(nth, one, coin),
            5..=6 => {
                let picked: BTreeSet<Edge> = (0..=which)
                    .map(|_| (name(dice), name(dice)))
                    .filter(|(one, other)| one != other)
                    .collect();
                self.change_from(nth, picked.into_iter().collect(), kind == 5);
            }
            _ => {
                let subscribers = SimRequest::Subscribers(one);
                self.ask_from(nth, &subscribers, What::Subscribers(one));
            }
        }
        self.say_first_of(nth, dice);
    }

    fn ask_from(&mut self, nth: usize, request: &SimRequest<'_>, what: What) {
        let begun = self.tick();
        self.note(|| format!("node {}: {request:?}", self.nodes[nth].name));
        let node = &mut self.nodes[nth];
        let number = node.peer.ask(request);
        node.asked.insert(number, Asked { begun, what });
    }

    fn log_in(&mut self, nth: usize, ids: BTreeSet<&'static str>) {
        let node = &mut self.nodes[nth];
        // Answers go to process 5.
        let number = 10 + node.processes.len() as u32;
        node.processes.push(Process {
            number,
            session: Session::coming(ids.clone(), node.is_faithful),
            coming: ids.len(),
            received: Vec::new(),
        });
        for id in ids {
            self.ask_from(nth, &SimRequest::Login(id, number), What::Login(number));
        }
    }

    fn log_out(&mut self, nth: usize, which: usize, has_ended: bool) {
        let node = &mut self.nodes[nth];
        let online = |it: &&mut Process| it.session.state == State::Online;
        let Some(process) = node.processes.iter_mut().filter(online).nth(which % 3) else {
            return;
        };
        process.session.leave();
        let number = process.number;
        let request = SimRequest::Logout(number, has_ended);
        self.ask_from(nth, &request, What::Logout(number));
    }

    fn publish_from(&mut self, nth: usize, subject: &'static str, is_binary: bool) {
        let number = self.compose(subject, false);
        let text = self.published[number].text.clone();
        let request = SimRequest::Publish(subject, &text, is_binary);
        self.ask_from(nth, &request, What::Publish(number));
        self.published[number].begun = self.clock;
    }

    fn change_from(&mut self, nth: usize, picked: Vec<Edge>, adds: bool) {
        let edges: Vec<_> = picked.iter().map(|&edge| (edge, adds)).collect();
        let what = What::Change {
            edges: edges.clone(),
            is_whole: false,
        };
        self.ask_from(nth, &SimRequest::Change(&picked, adds), what);
        for (edge, target) in edges {
            self.edges.begin(edge, target, self.clock);
        }
    }

    fn say_first_of(&mut self, nth: usize, dice: &mut Dice) {
        let node = &mut self.nodes[nth];
        let bytes = match dice.roll(3) {
            0 if !node.is_prompt => dice.roll(node.peer.unsaid() + 1),
            _ => usize::MAX,
        };
        node.peer.say(&mut self.process.node, bytes);
    }

    /// Nodes say more of their requests, and read more.
    pub(super) fn say_to_node(&mut self, dice: &mut Dice) {
        for nth in 0..self.nodes.len() {
            let node = &mut self.nodes[nth];
            let room = if dice.roll(4) == 0 { dice.roll(400) } else { 0 };
            let bytes = dice.roll(node.peer.unsaid() + 1);
            node.peer.say(&mut self.process.node, bytes);
            node.peer.make_room(&mut self.process.node, room);
        }
    }

    /// Lets the node of the server take a turn.
    pub(super) fn turn_node(&mut self) {
        self.process.node.turn();
        self.look_at_nodes();
    }

    /// A node ends, or its connection breaks.
    pub(super) fn disturb_node(&mut self, dice: &mut Dice) {
        let (nth, breaks) = (dice.roll(self.nodes.len().max(1)), dice.roll(2) == 0);
        let Some(node) = self.nodes.get_mut(nth) else {
            return;
        };
        if node.is_gone || dice.roll(2) == 0 {
            return;
        }
        node.peer.leave(&mut self.process.node, breaks);
        node.is_faithful = false;
        let online = node.sessions_mut().filter(|it| it.state != State::Gone);
        online.for_each(Session::leave);
        self.note(|| {
            format!(
                "node {} goes; its connection breaks: {breaks}",
                self.nodes[nth].name
            )
        });
    }

    /// A tenth of a second passes for the nodes.
    pub(super) fn tick_nodes(&mut self) {
        for node in self.nodes.iter_mut().filter(|it| !it.is_silent) {
            node.peer.tick();
            node.peer.say(&mut self.process.node, 1);
        }
    }

    /// Nodes read what they were sent, and the model notes what became of them.
    pub(super) fn look_at_nodes(&mut self) {
        // Some may have come and gone in one turn.
        self.look_who_is_online();
        for nth in 0..self.nodes.len() {
            let node = &mut self.nodes[nth];
            for said in node.peer.read(&self.process.node) {
                match said {
                    SimSaid::Answer(number, reply) => self.answered_from(nth, number, &reply),
                    SimSaid::Event(process, text) => self.event_for(nth, process, &text),
                }
            }
            let node = &mut self.nodes[nth];
            // Handshakes are said in two parts at most.
            if node.is_prompt || !node.peer.is_up() {
                node.peer.say(&mut self.process.node, usize::MAX);
            }
            if !node.is_gone && node.peer.is_forgotten(&self.process.node) {
                self.forget_node(nth);
            }
        }
        self.look_who_is_online();
    }

    fn forget_node(&mut self, nth: usize) {
        let now = self.tick();
        let node = &mut self.nodes[nth];
        assert!(
            !node.is_faithful,
            "node {} kept up and was closed",
            node.name
        );
        node.is_gone = true;
        let left = node.sessions_mut().filter(|it| it.state != State::Gone);
        let left = left.map(|session| session.go(now)).count();
        for (_, asked) in std::mem::take(&mut node.asked) {
            self.abandon(asked.what, now);
        }
        if left > 0 {
            self.happens(Happened::NodeVanished);
        }
    }

    fn event_for(&mut self, nth: usize, process: u32, text: &str) {
        let number = text
            .split(':')
            .next()
            .and_then(|it| it.parse::<usize>().ok());
        let published = number.and_then(|number| self.published.get(number));
        let is_it = published.is_some_and(|it| it.text == text);
        let node = &mut self.nodes[nth];
        assert!(is_it, "process {process} of {} is sent {text}", node.name);
        let received = &mut node.process(process).received;
        received.extend(number);
        self.happens(Happened::ProcessReached);
    }

    fn answered_from(&mut self, nth: usize, number: u32, reply: &str) {
        let now = self.tick();
        self.note(|| format!("node {} is told {number}: {reply}", self.nodes[nth].name));
        self.digest_answer(reply);
        let node = &mut self.nodes[nth];
        let Asked { begun, what } = node.asked.remove(&number).expect("an answer to a request");
        match what {
            What::Login(process) => {
                assert_eq!(reply, "ok", "a login");
                let process = node.process(process);
                process.coming -= 1;
                if process.coming == 0 && process.session.state == State::Coming {
                    process.session.come(now);
                }
            }
            What::Logout(process) => {
                assert_eq!(reply, "ok", "a logout");
                node.process(process).session.go(now);
            }
            What::Publish(number) => self.receipt_of(number, reply),
            What::Change { edges, .. } => {
                let (is_done, is_error) = (reply == "ok", reply.starts_with("{error,"));
                assert!(is_done || is_error, "a change is answered {reply}");
                let head = self.process.server.handle().router().head();
                let place = (now, head.unwrap_or_default());
                for edge in edges {
                    self.edges.end(edge, is_done, false, place);
                }
            }
            What::Subscribers(subject) => self.subscribers_listed(subject, begun, reply),
            What::List(_) => unreachable!("nodes do not ask for these"),
        }
    }

    /// Checks the answer to a process that has published, and notes who must have the event.
    fn receipt_of(&mut self, number: usize, reply: &str) {
        let reached = reply
            .strip_prefix("{ok,")
            .and_then(|it| it.strip_suffix('}'));
        let reached: u64 = reached.and_then(|it| it.parse().ok()).expect(reply);
        let Bounds { sessions, .. } = self.bounds(number);
        let [least, most] = sessions;
        assert!(
            (least..=most).contains(&reached),
            "{}: {reached} sessions, not from {least} to {most}",
            self.published[number].text
        );
        self.settle_readers(number);
        self.owe(number);
        self.happens(Happened::ProcessPublished);
    }

    fn subscribers_listed(&self, subject: &'static str, begun: u64, reply: &str) {
        let listed = reply.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let listed: BTreeSet<_> = listed.expect(reply).split(',').map(unquoted).collect();
        for subscriber in NAMES.into_iter().filter(|it| *it != subject) {
            let known = self.edges.known_since((subscriber, subject), begun);
            let is_there = listed.contains(subscriber);
            assert!(
                known.is_none_or(|it| it == is_there),
                "{subscriber} to {subject}, as listed to a process: {is_there}"
            );
        }
    }

    /// Returns how many processes have an event.
    pub(super) fn processes_with(&self, number: usize) -> usize {
        let processes = self.nodes.iter().flat_map(|it| &it.processes);
        processes.filter(|it| it.received.contains(&number)).count()
    }

    /// Checks that processes which keep up have what they must have.
    pub(super) fn judge_owed_to_processes(&mut self) {
        for process in self.nodes.iter_mut().flat_map(|it| &mut it.processes) {
            if !process.session.is_faithful {
                continue;
            }
            for number in process.session.owed.drain(..) {
                let text = &self.published[number].text;
                let has = process.received.contains(&number);
                assert!(has, "process {} has no {text}", process.number);
            }
        }
    }

    /// Checks that processes have only what is for them, once, and in order.
    pub(super) fn judge_processes(&self) {
        for node in &self.nodes {
            for process in &node.processes {
                let name = format!("process {} of {}", process.number, node.name);
                let mut last = BTreeMap::new();
                for (nth, &number) in process.received.iter().enumerate() {
                    let published = &self.published[number];
                    let (text, posted) = (&published.text, &published.posted);
                    let is_for = !posted.readers.is_disjoint(&process.session.ids);
                    assert!(
                        is_for,
                        "{name} has {text}, which is for {:?}",
                        posted.readers
                    );
                    let is_new = !process.received[..nth].contains(&number);
                    assert!(is_new, "{name} has {text} twice");
                    if posted.position > 0 {
                        let before = last.insert(posted.subject, posted.position);
                        let is_later = before.is_none_or(|before| before < posted.position);
                        assert!(is_later, "{name} has {text} behind a later one");
                    }
                }
            }
        }
    }

    /// Nodes say all that they have to say, and read everything.
    pub(super) fn heal_nodes(&mut self) {
        for node in &mut self.nodes {
            (node.is_silent, node.is_prompt) = (false, true);
            node.peer.make_room(&mut self.process.node, usize::MAX);
            node.peer.say(&mut self.process.node, usize::MAX);
        }
    }

    pub(super) fn assert_nodes_are_answered(&self) {
        for node in &self.nodes {
            let (waiting, name) = (node.asked.len(), node.name);
            assert_eq!(waiting, 0, "requests of {name} without an answer");
        }
    }

    /// All nodes end.
    pub(super) fn end_nodes(&mut self) {
        self.look_at_unanswered();
        for node in &mut self.nodes {
            node.is_faithful = false;
            node.peer.leave(&mut self.process.node, false);
        }
    }
}

/// An id of an answer: an integer, an atom or a binary.
fn unquoted(id: &str) -> &str {
    id.trim_start_matches("<<\"")
        .trim_end_matches("\">>")
        .trim_matches('\'')
}
