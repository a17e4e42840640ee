//! Logins of clients that a process of a peer decides on.

use std::net::IpAddr;
use std::sync::Arc;

use graph::Id;
use parking_lot::Mutex;
use server::{LoginChecker, LoginQuestion, LoginVerdict};

use super::*;
use crate::limits::LOGIN_QUESTIONS_MAX;
use crate::login_check::{LoginCheck, LoginQuestions, ProcessChecker, QuestionQueue};
use crate::sim::peer::{atom, hear_messages, integer, message, pid, reference, tuple};
use crate::sim::{Around, Bell, CREATION};

const TIMEOUT: Duration = Duration::from_secs(2);

/// A node that asks a process of the peer.
struct World {
    sim: SimulatedNode,
    checker: ProcessChecker,
    verdicts: Arc<Mutex<Vec<(u32, LoginVerdict)>>>,
    asked: u32,
}

impl World {
    fn new(accepts_unanswered: bool) -> Self {
        let check = LoginCheck {
            process: "gate,peer@h".parse().unwrap(),
            timeout: TIMEOUT,
            accepts_unanswered,
        };
        let bell = Bell::default();
        let queue = QuestionQueue::new(&check, bell.ringer());
        let around = Around {
            logins: Some(LoginQuestions::new(check, Arc::clone(&queue))),
            bell,
            ..Around::default()
        };
        Self {
            sim: SimulatedNode::with(NAME, &[], around),
            checker: ProcessChecker(queue),
            verdicts: Arc::default(),
            asked: 0,
        }
    }

    fn connect(&mut self, peer: Peer) -> ConnectionId {
        let connection = self.sim.accept_peer().unwrap();
        self.sim.receive(connection, &peer.call());
        self.sim.run_until_idle();
        assert_eq!(hear(&self.sim.take_sent(connection)).handshake.len(), 3);
        connection
    }

    /// Asks the next question, as a worker would.
    fn ask(&mut self) {
        self.asked += 1;
        let number = self.asked;
        let verdicts = Arc::clone(&self.verdicts);
        let question = LoginQuestion {
            ids: vec![Id::parse("alice").unwrap(), Id::parse("7").unwrap()],
            transport: "sse",
            address: Some(IpAddr::from([127, 0, 0, 1])),
            subject: None,
        };
        let answer = move |verdict| verdicts.lock().push((number, verdict));
        self.checker.ask(question, Box::new(answer));
    }

    fn heard(&mut self, connection: ConnectionId) -> Vec<String> {
        self.sim.run_until_idle();
        let mut said = hear_messages(&self.sim.take_sent(connection));
        said.retain(|said| !said.is_empty());
        said
    }

    fn verdicts(&mut self) -> Vec<(u32, LoginVerdict)> {
        self.sim.run_until_idle();
        std::mem::take(&mut self.verdicts.lock())
    }

    fn answer(&mut self, connection: ConnectionId, number: u32, answer: &[u8]) {
        let to = tuple(&[integer(2), atom(""), pid(NAME, 2, CREATION)]);
        let tag = reference(NAME, CREATION, &[0x3_ffff, number, 0]);
        let answer = tuple(&[tag, answer.to_vec()]);
        self.sim.receive(connection, &message(&to, Some(&answer)));
    }

    fn unanswered(&self) -> u64 {
        self.sim.node.metrics.get(Metric::LoginsUnanswered)
    }
}

#[test]
fn a_process_is_called_as_a_gen_server_and_only_ok_accepts_a_client() {
    let mut world = World::new(false);
    let connection = world.connect(PEER);
    for _ in 0..4 {
        world.ask();
    }
    let heard = world.heard(connection);
    assert_eq!(heard.len(), 4);
    let call = "{6,<encke@h.2.0>,'',gate} ! {'$gen_call',{<encke@h.2.0>,\
                #Ref<encke@h.0.1.262143>},{login,[<<\"alice\">>,7],#{";
    assert!(heard[0].starts_with(call), "{}", heard[0]);
    for part in [
        "transport => sse",
        "address => <<\"127.0.0.1\">>",
        "subject => undefined",
    ] {
        assert!(heard[0].contains(part), "{}", heard[0]);
    }
    assert_eq!(world.verdicts(), []);
    world.answer(connection, 2, &atom("ok"));
    world.answer(connection, 1, &atom("true"));
    world.answer(connection, 4, &tuple(&[atom("error"), atom("ok")]));
    // A question is answered only once.
    world.answer(connection, 1, &atom("ok"));
    world.answer(connection, 9, &atom("ok"));
    let (accepted, refused) = (LoginVerdict::Accepted, LoginVerdict::Refused);
    assert_eq!(
        world.verdicts(),
        [(2, accepted), (1, refused), (4, refused)]
    );
    assert_eq!(world.sim.counted().refused, [0; Refusal::KINDS]);
}

#[test]
fn unanswered_logins_are_decided_as_configured() {
    for (accepts, verdict) in [
        (false, LoginVerdict::Undecided),
        (true, LoginVerdict::Accepted),
    ] {
        let mut world = World::new(accepts);
        // The node is not connected.
        world.ask();
        assert_eq!(world.verdicts(), [(1, verdict)]);
        let connection = world.connect(PEER);
        world.ask();
        assert_eq!(world.verdicts(), []);
        world.sim.advance_clock(TIMEOUT / 2);
        world.ask();
        world.sim.run_until_idle();
        assert!(world.sim.node.timeout().unwrap() <= TIMEOUT / 2);
        world
            .sim
            .advance_clock(TIMEOUT / 2 - Duration::from_millis(1));
        assert_eq!(world.verdicts(), []);
        world.sim.advance_clock(Duration::from_millis(1));
        assert_eq!(world.verdicts(), [(2, verdict)]);
        // The answer is too late.
        world.answer(connection, 1, &atom("ok"));
        assert_eq!(world.verdicts(), []);
        // If the node disconnects, its questions are given up.
        world.sim.wake().ended(connection);
        assert_eq!(world.verdicts(), [(3, verdict)]);
        assert_eq!(world.unanswered(), 3);
    }
}

#[test]
fn only_the_node_of_the_process_may_answer() {
    let mut world = World::new(false);
    let connection = world.connect(PEER);
    let stranger = world.connect(Peer::new("stranger@h"));
    world.ask();
    world.heard(connection);
    for number in 0..10 {
        world.answer(stranger, number, &atom("ok"));
    }
    assert_eq!(world.verdicts(), []);
    let refused = world.sim.counted().refused[Refusal::NotUnderstood.kind()];
    assert_eq!(refused, 10);
    world.answer(connection, 1, &atom("no"));
    assert_eq!(world.verdicts(), [(1, LoginVerdict::Refused)]);
}

#[test]
fn the_number_of_open_questions_is_bounded_and_answers_make_room() {
    let mut world = World::new(false);
    let connection = world.connect(PEER);
    for _ in 0..=LOGIN_QUESTIONS_MAX {
        world.ask();
    }
    let beyond = LOGIN_QUESTIONS_MAX as u32 + 1;
    assert_eq!(world.verdicts(), [(beyond, LoginVerdict::Undecided)]);
    world.answer(connection, 7, &atom("ok"));
    assert_eq!(world.verdicts(), [(7, LoginVerdict::Accepted)]);
    world.ask();
    assert_eq!(world.verdicts(), []);
    world.ask();
    assert_eq!(world.verdicts(), [(beyond + 2, LoginVerdict::Undecided)]);
    world.sim.advance_clock(TIMEOUT);
    assert_eq!(world.verdicts().len(), LOGIN_QUESTIONS_MAX);
    assert_eq!(world.heard(connection).len(), LOGIN_QUESTIONS_MAX + 1);
}
