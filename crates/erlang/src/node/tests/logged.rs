//! Processes of a node whose server is in a cluster. The test simulates the log.

use std::sync::Arc;

use graph::{Effect, GraphError};
use history::Reach;
use parking_lot::Mutex;
use replication::{
    Append, AppendError, Applied, Command, CommandResult, Done, Position, Status, Wait,
};

use super::*;
use crate::limits::LOGGED_CHANGES_MAX;
use crate::sim::peer::{atom, hear_messages, integer, list, message, nil, tuple};

/// Appended commands, and the callback for their outcome.
pub(super) type Appended = (Vec<Command>, Wait, Done);

#[derive(Default)]
struct FakeLog(Mutex<Vec<Appended>>);

impl std::fmt::Debug for FakeLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FakeLog")
    }
}

impl Append for FakeLog {
    fn append(&self, commands: Vec<Command>, wait: Wait, done: Done) {
        self.0.lock().push((commands, wait, done));
    }

    fn status(&self) -> Status {
        unimplemented!("processes do not use it")
    }
}

fn applied(results: Vec<CommandResult>) -> Result<Applied, AppendError> {
    Ok(Applied {
        first: Position::default(),
        results,
        nodes: 2,
        missing: Vec::new(),
    })
}

fn reached(written: u64, queued: u64) -> CommandResult {
    CommandResult::Event {
        position: Position::default(),
        subscribers: 9,
        online: 8,
        written,
        queued,
        shed: 1,
    }
}

pub(super) struct Cluster {
    sim: SimulatedNode,
    connection: ConnectionId,
    log: Arc<FakeLog>,
}

impl Cluster {
    pub(super) fn new() -> Self {
        let log = Arc::<FakeLog>::default();
        let mut sim = SimulatedNode::with_log(NAME, &[], Some(log.clone()));
        let connection = sim.accept_peer().unwrap();
        sim.receive(connection, &PEER.call());
        sim.run_until_idle();
        assert_eq!(hear(&sim.take_sent(connection)).handshake.len(), 3);
        Self {
            sim,
            connection,
            log,
        }
    }

    pub(super) fn say(&mut self, packet: &[u8]) {
        self.sim.receive(self.connection, packet);
    }

    /// Runs the node until it is idle, and returns what it has sent to the peer.
    pub(super) fn heard(&mut self) -> Vec<String> {
        self.sim.run_until_idle();
        hear_messages(&self.sim.take_sent(self.connection))
    }

    pub(super) fn may_read(&self) -> bool {
        self.sim.node.may_read(self.connection)
    }

    pub(super) fn advance_clock(&mut self, time: Duration) {
        self.sim.advance_clock(time);
    }

    pub(super) fn appended(&self) -> Vec<Appended> {
        std::mem::take(&mut self.log.0.lock())
    }

    fn failures(&self) -> u64 {
        self.sim.node.metrics.get(Metric::LogFailures)
    }
}

fn reply(reply: &str) -> String {
    format!("{{2,'',<peer@h.5.0>}} ! {{#Ref<peer@h.0.0.1>,{reply}}}")
}

fn publish() -> Vec<u8> {
    let request = tuple(&[atom("send"), atom("rj"), tuple(&[integer(1), atom("x")])]);
    PEER.call_to("router", &request)
}

fn subscribe(count: u32) -> Vec<u8> {
    let pair = |number| tuple(&[integer(number), atom("news")]);
    let pairs: Vec<_> = (0..i64::from(count)).map(pair).collect();
    let request = tuple(&[atom("add_subscriptions"), list(&pairs, &nil())]);
    PEER.call_to("subsmanager", &request)
}

#[test]
fn a_publish_is_answered_with_the_sum_over_all_nodes() {
    let mut cluster = Cluster::new();
    cluster.say(&publish());
    assert_eq!(
        cluster.heard(),
        Vec::<String>::new(),
        "nothing is known yet"
    );
    let (commands, wait, done) = cluster.appended().pop().unwrap();
    let [Command::Event(event)] = &*commands else {
        panic!("{commands:?}");
    };
    assert_eq!((event.reach, wait), (Reach::Subscribers, Wait::Delivered));
    let payload = router::Payload::of_tagged(event.tag, event.payload.clone()).unwrap();
    assert_eq!(&**payload.bytes(), b"{1,x}");
    assert!(
        payload.native().is_some(),
        "processes of all nodes get the term itself"
    );
    done(applied(vec![reached(5, 2)]));
    assert_eq!(cluster.heard(), [reply("{ok,7}")]);
}

#[test]
fn a_message_to_any_goes_into_the_log_and_its_failure_is_counted() {
    let mut cluster = Cluster::new();
    let to_any = tuple(&[integer(6), PEER.pid(5), atom(""), atom("any")]);
    let body = list(&[], &nil());
    cluster.say(&message(&to_any, Some(&tuple(&[integer(7), body]))));
    let (commands, _, done) = cluster.appended().pop().unwrap();
    let [Command::Event(event)] = &*commands else {
        panic!("{commands:?}");
    };
    assert_eq!(event.reach, Reach::Subject);
    done(Err(AppendError::Full));
    assert_eq!((cluster.heard(), cluster.failures()), (Vec::new(), 1));
}

#[test]
fn a_call_is_answered_with_the_error_of_the_log() {
    for packet in [publish(), subscribe(3)] {
        for (error, says) in [
            (AppendError::Full, "too much"),
            (AppendError::Unknown, "may still take effect"),
        ] {
            let mut cluster = Cluster::new();
            cluster.say(&packet);
            for (_, _, done) in cluster.appended() {
                done(Err(error));
            }
            let heard = cluster.heard();
            assert!(
                heard.len() == 1 && heard[0].contains("{error,"),
                "{heard:?}"
            );
            assert!(heard[0].contains(says), "{heard:?}");
            assert_eq!(cluster.failures(), 1);
        }
        // The log ends without an answer.
        let mut cluster = Cluster::new();
        cluster.say(&packet);
        drop(cluster.appended());
        let heard = cluster.heard();
        assert!(heard[0].contains("may still take effect"), "{heard:?}");
    }
}

#[test]
fn changes_are_logged_in_parts_and_answered_when_the_last_is_applied() {
    let mut cluster = Cluster::new();
    let count = LOGGED_CHANGES_MAX as u32 * 2 + 1;
    cluster.say(&subscribe(count));
    let parts = cluster.appended();
    let sizes: Vec<_> = parts.iter().map(|(commands, ..)| commands.len()).collect();
    assert_eq!(sizes, [LOGGED_CHANGES_MAX, LOGGED_CHANGES_MAX, 1]);
    let last = parts.len() - 1;
    for (number, (commands, wait, done)) in parts.into_iter().enumerate() {
        assert_eq!(wait, Wait::Logged);
        assert_eq!(
            cluster.heard(),
            Vec::<String>::new(),
            "part {number} of {last}"
        );
        let effect = |_| CommandResult::Change(Ok(Effect::default()));
        done(applied(commands.into_iter().map(effect).collect()));
    }
    assert_eq!(cluster.heard(), [reply("ok")]);
}

#[test]
fn a_part_of_changes_with_long_ids_is_bounded_in_bytes() {
    let mut cluster = Cluster::new();
    let pair = |number| tuple(&[atom(&format!("{number:0>128}")), atom("news")]);
    let pairs: Vec<_> = (0..2000).map(pair).collect();
    let request = tuple(&[atom("add_subscriptions"), list(&pairs, &nil())]);
    cluster.say(&PEER.call_to("subsmanager", &request));
    let parts = cluster.appended();
    let bytes = |commands: &Vec<Command>| commands.iter().map(Command::encoded_bytes).sum();
    let bytes: Vec<usize> = parts.iter().map(|(commands, ..)| bytes(commands)).collect();
    assert!(bytes.iter().all(|&it| it <= 128 * 1024), "{bytes:?}");
    assert!(bytes.len() < 4, "{bytes:?}");
}

#[test]
fn calls_that_wait_are_bounded_and_one_that_is_answered_makes_room() {
    let mut cluster = Cluster::new();
    for _ in 0..65_536 {
        cluster.say(&publish());
    }
    assert_eq!(cluster.heard(), Vec::<String>::new());
    cluster.say(&publish());
    let heard = cluster.heard();
    assert_eq!(heard.len(), 1);
    assert!(heard[0].contains("too many calls are waiting"), "{heard:?}");
    let mut appended = cluster.appended();
    assert_eq!(appended.len(), 65_536);
    (appended.pop().unwrap().2)(applied(vec![reached(1, 0)]));
    assert_eq!(cluster.heard(), [reply("{ok,1}")]);
    cluster.say(&publish());
    assert_eq!(cluster.heard(), Vec::<String>::new());
}

#[test]
fn a_change_that_fails_on_this_node_is_an_error() {
    let mut cluster = Cluster::new();
    cluster.say(&subscribe(1));
    let (_, _, done) = cluster.appended().pop().unwrap();
    done(applied(vec![CommandResult::Change(Err(GraphError::Ended))]));
    let heard = cluster.heard();
    assert!(heard[0].contains("{error,"), "{heard:?}");
}
