//! Replication between nodes while nothing fails.

use crate::nodes::{Node, until};
use crate::servers::Servers;

#[test]
fn all_nodes_apply_the_entries_of_all_in_one_order() {
    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let nodes = ["n1", "n2", "n3"].map(|name| Node::start(&servers, name));
    let count = 300;
    let outcomes: Vec<_> = (0..count)
        .map(|number| nodes[number % 3].append(&number.to_string()))
        .collect();
    let positions: Vec<_> = outcomes
        .iter()
        .map(|outcome| outcome.recv().unwrap().unwrap().first)
        .collect();
    let last = *positions.iter().max().unwrap();
    nodes.iter().for_each(|node| node.wait_for(last));
    let journals = nodes.each_ref().map(Node::journal);
    assert_eq!(journals[0].events.len(), count);
    for journal in &journals {
        assert_eq!(journal.events, journals[0].events);
        assert_eq!(journal.own, count / 3);
    }
    for (number, position) in positions.into_iter().enumerate() {
        let expected = (position, number.to_string());
        assert!(journals[1].events.contains(&expected), "{expected:?}");
    }
}

#[test]
fn a_node_continues_at_its_position_and_is_ready_when_caught_up() {
    use replication::Append;

    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let first = Node::start(&servers, "n1");
    first.append_surely("before");
    let start = first.journal().at;
    let last = first.append_surely("after");
    let again = Node::start_at(&servers, "n2", start);
    until("ready", || again.cluster.status().not_ready.is_none());
    assert_eq!(again.journal().events, [(last, "after".to_owned())]);
    let status = again.cluster.status();
    assert!(status.applied >= last.sequence(), "{status:?}");
    assert_eq!(&*status.epoch, "e");
}

#[test]
fn a_receipt_sums_all_nodes_and_names_dead_ones() {
    use replication::{Append, Wait};

    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let writer = Node::start(&servers, "n1");
    let other = Node::start(&servers, "n2");
    writer.append_surely("warm");
    other.append_surely("warm too");
    until("both are members", || {
        writer.cluster.status().nodes.len() == 2
    });
    let receipt = || {
        let answered = writer.append_and_wait("event", Wait::Delivered);
        let applied = answered.recv().unwrap().unwrap();
        (applied.nodes, applied.missing)
    };
    // A node on a busy machine may answer late.
    until("both answer", || receipt() == (2, Vec::new()));
    other.freeze();
    assert_eq!(receipt(), (1, vec!["n2".into()]));
}

#[test]
fn a_node_that_leaves_ends_its_incarnation_in_the_log() {
    use replication::Append;

    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let stays = Node::start(&servers, "n1");
    let leaves = Node::start(&servers, "n2");
    leaves.append_surely("hello");
    let incarnation = leaves.cluster.status().incarnation.unwrap();
    leaves.cluster.end();
    until("it is gone", || stays.journal().gone == [incarnation]);
    until("it is no member", || {
        stays.cluster.status().nodes.len() == 1
    });
    let refused = leaves.append("too late").recv().unwrap();
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn a_node_declared_gone_continues_as_a_new_incarnation() {
    use replication::{Append, Command, Wait};

    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let accuser = Node::start(&servers, "n1");
    let accused = Node::start(&servers, "n2");
    accused.append_surely("one");
    let incarnation = accused.cluster.status().incarnation.unwrap();
    let gone = vec![Command::NodeGone { incarnation }];
    accuser.cluster.append(gone, Wait::Logged, Box::new(drop));
    accused.append_surely("two");
    until("a new one", || {
        accused.cluster.status().incarnation != Some(incarnation)
    });
    let last = accused.append_surely("three");
    accuser.wait_for(last);
    let events = accuser.journal().events;
    let texts: Vec<_> = events.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["one", "two", "three"]);
}

#[test]
fn an_append_is_refused_at_once_while_the_engine_is_unreachable() {
    use replication::{Append, AppendError};

    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let node = Node::start(&servers, "n1");
    node.append_surely("one");
    servers.signal(0, "STOP");
    until("it is noticed", || {
        node.cluster.status().not_ready.is_some()
    });
    let refused = node.append("nobody has this").recv().unwrap();
    assert!(
        matches!(refused, Err(AppendError::Unavailable { .. })),
        "{refused:?}"
    );
    servers.signal(0, "CONT");
    until("it is back", || node.cluster.status().not_ready.is_none());
    node.append_surely("two");
    let events = node.journal().events;
    let texts: Vec<_> = events.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["one", "two"]);
}

#[test]
fn a_node_that_cannot_apply_an_entry_stops_and_is_not_ready() {
    use replication::Append;

    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let node = Node::start(&servers, "n1");
    node.append_surely("good");
    let _ = node.append("unreadable");
    until("it has stopped", || {
        node.cluster.status().not_ready.is_some()
    });
    let reason = node.cluster.status().not_ready.unwrap();
    assert!(reason.contains("the test says so"), "{reason}");
    assert!(node.append("after").recv().unwrap().is_err());
    assert_eq!(node.journal().events.len(), 1);
}
