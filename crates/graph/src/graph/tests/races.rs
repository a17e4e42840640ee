//! Laws of readers beside changes, in whatever order their threads take their steps.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use scheduled::{check, spawn};

use super::{Counts, Graph, id, subscribers, subscriptions};
use crate::changed::Changed;
use crate::id::Id;
use crate::key::Key;

/// Orders of each law by each scheduler.
const SCHEDULES: usize = 5_000;

/// Ends of an edge, far apart: each has a lock of its own.
const FROM: u32 = 1;
const TO: u32 = 1_000_000;

fn key(number: u32) -> Key {
    Key::from_number(number)
}

/// Whether the edge is seen from its subscriber, or from its subject.
fn is_seen(graph: &Graph, from_subscriber: bool) -> bool {
    match from_subscriber {
        true => graph.is_subscribed(key(FROM), key(TO)),
        false => subscribers(graph, key(TO)).contains(&key(FROM)),
    }
}

#[test]
fn a_change_is_seen_from_both_ends_or_from_none() {
    check(SCHEDULES, || {
        let graph = Arc::new(Graph::memory());
        for comes in [true, false] {
            let other = Arc::clone(&graph);
            let writer = spawn(move || {
                let (from, to) = (Id::from(FROM), Id::from(TO));
                let changed = match comes {
                    true => other.subscribe(&from, &to),
                    false => other.unsubscribe(&from, &to),
                };
                assert_eq!(changed, Ok(true));
            });
            for first in [true, false] {
                if is_seen(&graph, first) == comes {
                    assert_eq!(is_seen(&graph, !first), comes, "one end has changed alone");
                }
            }
            writer.join().expect("no panic");
        }
        assert_eq!(graph.counts(), Counts::default());
    });
}

// A subscription that was seen and whose beginning was not known yet counted as old: a session was
// fed events from before it.
#[test]
fn who_sees_a_subscription_finds_since_when_it_holds() {
    check(SCHEDULES, || {
        let graph = Arc::new(Graph::memory());
        graph.record_additions(Arc::new(AtomicU64::new(5)));
        let other = Arc::clone(&graph);
        let writer = spawn(move || {
            other
                .subscribe(&Id::from(FROM), &Id::from(TO))
                .expect("integers");
        });
        if !subscriptions(&graph, key(FROM)).is_empty() {
            let mut additions = Vec::new();
            graph.additions(key(FROM), 0, &mut additions);
            assert_eq!(additions, [(key(TO), 5)]);
        }
        writer.join().expect("no panic");
    });
}

// A change that was told before it could be seen was taken, and not seen, and never told again.
#[test]
fn a_view_that_is_read_again_where_changes_are_told_is_the_graph_in_the_end() {
    check(SCHEDULES, || {
        let graph = Arc::new(Graph::memory());
        graph.note_changes();
        let other = Arc::clone(&graph);
        let writer = spawn(move || {
            let (from, to) = (Id::from(FROM), Id::from(TO));
            other.subscribe(&from, &to).expect("integers");
            other.subscribe(&from, &Id::from(2)).expect("integers");
            other.unsubscribe(&from, &to).expect("integers");
        });
        let mut view = Vec::new();
        let mut look = || match graph.take_changed() {
            Changed::Of(subscribers) if subscribers.is_empty() => {}
            Changed::Of(subscribers) => {
                assert_eq!(subscribers, [key(FROM)]);
                view = subscriptions(&graph, key(FROM));
            }
            Changed::OfAny => panic!("there are few"),
        };
        look();
        look();
        writer.join().expect("no panic");
        look();
        assert_eq!(view, [key(2)]);
    });
}

// Between a look for the key of an id and the reference to it, the id was forgotten, and its key
// had no id or another one.
#[test]
fn a_key_that_is_held_means_its_id_and_what_nobody_holds_is_forgotten() {
    check(SCHEDULES, || {
        let graph = Arc::new(Graph::memory());
        let holders = [0, 1].map(|nth| {
            let graph = Arc::clone(&graph);
            spawn(move || {
                for name in ["ana", "ben"] {
                    let name = id(name);
                    let key = graph.hold(&name).expect("there is room");
                    let again = (nth == 1).then(|| graph.hold_known(&name));
                    assert_eq!(graph.name(key).as_ref(), Some(&name));
                    assert_eq!(graph.find(&name), Some(key));
                    if let Some(again) = again {
                        assert_eq!(again, Some(key), "it is held");
                        graph.release(key);
                    }
                    graph.release(key);
                }
            })
        });
        graph
            .subscribe(&id("ana"), &id("ben"))
            .expect("there is room");
        assert_eq!(graph.unsubscribe(&id("ana"), &id("ben")), Ok(true));
        for holder in holders {
            holder.join().expect("no panic");
        }
        assert_eq!(graph.counts(), Counts::default());
    });
}
