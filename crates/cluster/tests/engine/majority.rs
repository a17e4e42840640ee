//! An engine that has lost the majority of its servers.

use std::time::{Duration, Instant};

use replication::{Append, AppendError};

use crate::nodes::{Node, until};
use crate::servers::Servers;

/// Time for an answer at once, on a busy machine: much less than that of an append whose outcome is
/// not known.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The server that is left answers, so that the engine is not silent. Each append waited for 15 s,
/// and its outcome was then not known.
#[test]
fn an_append_is_refused_at_once_while_the_engine_has_no_majority() {
    let Some(mut servers) = Servers::start(3, "") else {
        return;
    };
    let node = Node::start(&servers, "n1");
    node.append_surely("one");
    servers.kill(0);
    servers.kill(1);
    until("it is noticed", || {
        let not_ready = node.cluster.status().not_ready;
        not_ready.is_some_and(|reason| reason.contains("has had no leader"))
    });
    for _ in 0..3 {
        let start = Instant::now();
        let refused = node.append("nobody has this").recv().unwrap();
        assert!(
            matches!(refused, Err(AppendError::Unavailable { .. })),
            "{refused:?}"
        );
        assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    }
    let silence = node.cluster.cut_off();
    assert!(
        silence < AT_ONCE,
        "no other node can have a leader: {silence:?}"
    );
    servers.run(0);
    servers.run(1);
    until("it is ready", || node.cluster.status().not_ready.is_none());
    node.append_surely("two");
    let events = node.journal().events;
    let texts: Vec<_> = events.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["one", "two"]);
}
