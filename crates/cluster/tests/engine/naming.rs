//! Names of nodes: each belongs to one that lives.

use std::thread;

use cluster::JoinError;
use replication::{Append, Checkpoint};

use crate::nodes::{Node, until};
use crate::servers::Servers;

/// Pairs of nodes that start at once. In some of them both ask before either can answer.
const PAIRS: usize = 3;

fn start(servers: &Servers, name: &str) -> Result<Node, JoinError> {
    Node::try_start_at(servers, name, Checkpoint::default())
}

#[test]
fn a_name_is_refused_while_its_node_lives_and_free_when_it_has_ended() {
    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    let first = Node::start(&servers, "n1");
    first.append_surely("one");
    let status = first.cluster.status();
    let refused = start(&servers, "n1").err().unwrap();
    let expected = JoinError::NameTaken {
        node: "n1".to_owned(),
        incarnation: status.incarnation.unwrap(),
    };
    assert_eq!(refused, expected);
    assert!(refused.to_string().contains("--node"), "{refused}");
    // It was asked, and neither ends nor counts anybody else.
    assert_eq!(first.cluster.namesake(), None);
    assert_eq!(first.cluster.status().nodes.len(), 1);
    first.cluster.end();
    let again = start(&servers, "n1").unwrap();
    again.append_surely("two");
}

#[test]
fn of_two_nodes_with_one_name_that_start_at_once_one_is_left() {
    let Some(servers) = Servers::start(1, "") else {
        return;
    };
    for pair in 0..PAIRS {
        let name = format!("pair-{pair}");
        let nodes: Vec<Node> = thread::scope(|scope| {
            let starts = [(); 2].map(|()| scope.spawn(|| start(&servers, &name)));
            let started = starts.into_iter().map(|start| start.join().unwrap());
            started.filter_map(Result::ok).collect()
        });
        let left = || {
            let nodes = nodes.iter();
            let left = nodes.filter(|node| node.cluster.namesake().is_none());
            left.collect::<Vec<_>>()
        };
        until("one is left", || left().len() == 1);
        left()[0].append_surely("it works");
        assert_eq!(left().len(), 1);
    }
}
