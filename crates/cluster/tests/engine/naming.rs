//! Names of nodes: each belongs to at most one live node.

use std::thread;

use cluster::JoinError;
use replication::{Append, Checkpoint};

use crate::nodes::{Node, until};
use crate::servers::Servers;

/// Number of pairs of nodes that start at the same time. In some of them both ask before either can
/// answer.
const PAIRS: usize = 3;

fn start(servers: &Servers, name: &str) -> Result<Node, JoinError> {
    Node::try_start_at(servers, name, Checkpoint::default())
}

#[test]
fn a_name_is_refused_until_its_node_has_ended() {
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
    // The request has no effect on the first node.
    assert_eq!(first.cluster.namesake(), None);
    assert_eq!(first.cluster.status().nodes.len(), 1);
    first.cluster.end();
    let again = start(&servers, "n1").unwrap();
    again.append_surely("two");
}

#[test]
fn only_one_of_two_nodes_with_one_name_stays() {
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
