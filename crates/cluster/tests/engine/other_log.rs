//! A log that is replaced while a node applies it.

use std::time::Duration;

use async_nats::jetstream;
use cluster::{Engine, Options, Stop, StopKind};
use replication::Append;
use tokio::runtime::Builder;

use crate::joining::join;
use crate::nodes::{Node, until};
use crate::servers::Servers;

/// Removes the stream, as a slip with the tools of NATS does, and makes it anew with another epoch
/// or the same.
fn make_anew(options: &Options, epoch: &str) -> Engine {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let servers: Vec<_> = options.servers.iter().map(ToString::to_string).collect();
        let client = async_nats::connect(servers).await.unwrap();
        let context = jetstream::new(client);
        context.delete_stream("encke-test").await.unwrap();
    });
    join(options, epoch)
}

/// Waits until the node has stopped. Returns the reason.
fn stop_of(node: &Node) -> Stop {
    until("it has stopped", || node.cluster.stopped().is_some());
    node.cluster.stopped().unwrap().clone()
}

fn texts(node: &Node) -> Vec<String> {
    let events = node.journal().events;
    events.into_iter().map(|(_, text)| text).collect()
}

/// A regression: the node stayed ready, and its clients got nothing until the new log had more
/// entries than the node had applied.
#[test]
fn a_node_stops_if_its_log_is_deleted_and_created_again() {
    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let options = servers.options();
    let node = Node::start(&servers, "n1");
    node.append_surely("old");
    drop(make_anew(&options, "f"));
    let Stop { reason, kind } = stop_of(&node);
    assert_eq!(kind, StopKind::OtherLog);
    assert!(
        reason.contains("made anew") && reason.contains("empty data directory"),
        "{reason}"
    );
    let refused = node.append("nobody has this").recv().unwrap();
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(texts(&node), ["old"]);
}

/// The epoch is the same and the sequences continue, so only the contents show it. A regression:
/// the node continued with another history than the others.
#[test]
fn a_node_stops_if_its_log_lost_its_end_and_has_grown_again() {
    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let options = servers.options();
    let node = Node::start(&servers, "n1");
    node.append_surely("old");
    drop(make_anew(&options, "e"));
    let other = Node::start(&servers, "n2");
    for number in 0..20 {
        other.append_surely(&number.to_string());
    }
    let Stop { reason, kind } = stop_of(&node);
    assert_eq!(kind, StopKind::OtherLog, "{reason}");
    assert!(reason.contains("differs from the one"), "{reason}");
    assert_eq!(texts(&node), ["old"]);
    assert_eq!(texts(&other).len(), 20);
}

#[test]
fn a_node_stops_if_its_log_was_in_the_memory_of_ended_servers() {
    let Some(mut servers) = Servers::start(3, "") else {
        return;
    };
    servers.keep_log_in_memory();
    let node = Node::start(&servers, "n1");
    let last = node.append_surely("old");
    (0..3).for_each(|number| servers.kill(number));
    (0..3).for_each(|number| servers.run(number));
    let Stop { reason, kind } = stop_of(&node);
    assert_eq!(kind, StopKind::OtherLog, "{reason}");
    let applied = format!("has applied entry {}", last.sequence());
    assert!(reason.contains(&applied), "{reason}");
}

/// An election, or a server that returns with an empty disk, does not make it another log.
#[test]
fn a_node_survives_kills_of_the_servers_one_after_another() {
    let Some(mut servers) = Servers::start(3, "") else {
        return;
    };
    let node = Node::start(&servers, "n1");
    for number in 0..3 {
        node.append_surely(&format!("before {number}"));
        servers.kill(number);
        node.append_surely(&format!("without {number}"));
        servers.run(number);
        until("it is ready", || node.cluster.status().not_ready.is_none());
    }
    assert_eq!(node.cluster.stopped(), None);
    assert_eq!(texts(&node).len(), 6);
    assert!(node.cluster.cut_off() < Duration::from_secs(5));
}

/// At start a node asks at once, when the leader may not have all entries yet.
#[test]
fn at_start_a_node_waits_for_its_applied_entries_and_gives_up() {
    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let node = Node::start(&servers, "n1");
    let last = node.append_surely("one").sequence().number();
    let mut engine = join(&servers.options(), "e");
    assert_eq!(engine.wait_for_end(last), Ok(()));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| engine.wait_for_end(last + 1));
        node.append_surely("two");
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
    let refused = engine.wait_for_end(last + 100).expect_err("never");
    assert!(refused.to_string().contains("log ends at"), "{refused}");
}
