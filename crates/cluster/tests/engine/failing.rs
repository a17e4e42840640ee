//! Servers of the engine that are killed and stopped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use replication::{AppendError, Position};

use crate::nodes::{Node, PATIENCE};
use crate::servers::Servers;

/// Events between two faults.
const EVENTS: usize = 150;

/// Pause of a writer between two events: about 200 events a second.
const PAUSE: Duration = Duration::from_millis(5);

/// Ends the writers, even if the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Result of one event, as known to its writer.
type Outcome = (String, Result<Position, AppendError>);

#[test]
fn acknowledged_events_are_applied_exactly_once_while_servers_are_killed_and_stopped() {
    let Some(mut servers) = Servers::start(3, "") else {
        return;
    };
    let nodes = ["n1", "n2", "n3"].map(|name| Node::start(&servers, name));
    let ends = AtomicBool::new(false);
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let writers = nodes
            .each_ref()
            .map(|node| scope.spawn(|| write(node, &ends)));
        let end = EndOnDrop(&ends);
        let more = |count: usize| {
            let [node, ..] = &nodes;
            let before = node.journal().events.len();
            crate::nodes::until("events come", || {
                node.journal().events.len() >= before + count
            });
        };
        more(EVENTS);
        for number in 0..3 {
            servers.kill(number);
            more(EVENTS);
            servers.run(number);
            more(EVENTS);
        }
        servers.signal(1, "STOP");
        more(EVENTS);
        servers.signal(1, "CONT");
        more(EVENTS);
        drop(end);
        writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect()
    });
    let last = nodes[0].append_surely("last");
    nodes.iter().for_each(|node| node.wait_for(last));

    let journals = nodes.each_ref().map(Node::journal);
    for journal in &journals {
        assert!(journal.events == journals[0].events, "one order for all");
        println!("longest pause {:?}", journal.longest_pause);
    }
    let mut applied = HashMap::new();
    for (position, text) in &journals[0].events {
        let again = applied.insert(text.as_str(), *position);
        assert_eq!(again, None, "{text} came twice");
    }
    for (text, outcome) in &outcomes {
        let position = applied.get(text.as_str());
        match outcome {
            Ok(acknowledged) => assert_eq!(position, Some(acknowledged), "{text}"),
            Err(AppendError::Unknown) => {}
            Err(refused) => assert_eq!(position, None, "{text} was refused: {refused}"),
        }
    }
}

/// Appends numbered events until told to end. Returns the result of each.
fn write(node: &Node, ends: &AtomicBool) -> Vec<Outcome> {
    let name = format!("{:p}", node);
    let mut waiting = Vec::new();
    for number in 0.. {
        if ends.load(Ordering::Relaxed) {
            break;
        }
        let text = format!("{name} {number}");
        let answered = node.append(&text);
        waiting.push((text, answered));
        thread::park_timeout(PAUSE);
    }
    let outcome = |(text, answered): (String, std::sync::mpsc::Receiver<_>)| {
        let outcome: Result<replication::Applied, _> = answered.recv_timeout(PATIENCE).unwrap();
        (text, outcome.map(|applied| applied.first))
    };
    waiting.into_iter().map(outcome).collect()
}
