//! Messages between nodes outside the log, receipts and membership.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::Duration;

use proptest::prelude::*;
use replication::{
    ANSWER_TIME, AWAITED_MAX, Answer, Answers, Command, CommandResult, DecodeError, DrainMessage,
    EARLY_EVENTS_MAX, Entry, EventCounts, Heartbeat, Incarnation, Membership, NodeCounters,
    NodeState, Position, Reader, Receipts, Report, SILENT_AFTER, STOOD_STILL_AFTER, StreamSequence,
    Table,
};

const ZERO: Duration = Duration::ZERO;

fn incarnation(number: u64) -> Incarnation {
    Incarnation::new(number).unwrap()
}

fn sequence(number: u64) -> StreamSequence {
    StreamSequence::new(number).unwrap()
}

/// Returns a table of nodes "n1", "n2" …
fn table(nodes: u64) -> Table {
    let names = (1..=nodes).map(|node| format!("n{node}"));
    table_of(&names.collect::<Vec<_>>())
}

/// Returns a table of nodes with these names, whose incarnations and sequences are 1, 2, 3 …
fn table_of(names: &[impl AsRef<str>]) -> Table {
    let mut reader = Reader::default();
    for (node, name) in (1..).zip(names) {
        let up = Command::NodeUp {
            name: name.as_ref().into(),
            version: "1".into(),
            after: sequence(node - 1),
        };
        let entry = Entry {
            incarnation: incarnation(node),
            number: 1,
            commands: vec![up],
        };
        let bytes = entry.encode().unwrap();
        reader.read(reader.next(), &bytes).unwrap();
    }
    reader.table().clone()
}

fn counts(index: u16, online: u32, written: u32) -> EventCounts {
    EventCounts {
        index,
        online,
        written,
        queued: online - written,
        shed: 0,
    }
}

fn answer(at: u64, events: Vec<EventCounts>) -> Answer {
    let sequence = sequence(at);
    Answer { sequence, events }
}

/// Returns the results of an entry of one event and one change, before any node has answered.
fn results(at: u64) -> Vec<CommandResult> {
    let event = CommandResult::Event {
        position: Position::new(sequence(at), 0),
        subscribers: 9,
        online: 0,
        written: 0,
        queued: 0,
        shed: 0,
    };
    vec![event, CommandResult::None]
}

fn online(results: &[CommandResult]) -> (u64, u64) {
    match results[0] {
        CommandResult::Event {
            online, written, ..
        } => (online, written),
        _ => panic!("an event"),
    }
}

#[test]
fn a_receipt_is_the_sum_over_all_nodes_and_each_is_counted_once() {
    let mut receipts = Receipts::default();
    // Node 2 is ahead of this one.
    assert_eq!(
        receipts.answer(incarnation(2), answer(9, vec![counts(0, 5, 4)])),
        None
    );
    assert_eq!(
        receipts.expect(ZERO, sequence(9), &table(3), results(9), 'a'),
        []
    );
    let own = answer(9, vec![counts(0, 2, 2), counts(1, 7, 7), counts(8, 1, 1)]);
    assert_eq!(receipts.answer(incarnation(1), own.clone()), None);
    assert_eq!(receipts.answer(incarnation(1), own), None);
    assert_eq!(
        receipts.answer(incarnation(77), answer(9, vec![counts(0, 1, 1)])),
        None
    );
    let receipt = receipts
        .answer(incarnation(3), answer(9, Vec::new()))
        .unwrap();
    assert_eq!((receipt.token, receipt.nodes), ('a', 3));
    assert_eq!(online(&receipt.results), (7, 6));
    assert!(receipt.missing.is_empty());
    assert_eq!(receipts.awaited(), 0);
}

#[test]
fn a_node_that_does_not_answer_in_time_is_named() {
    let mut receipts = Receipts::default();
    receipts.expect(ZERO, sequence(1), &table(3), results(1), 'a');
    receipts.answer(incarnation(2), answer(1, vec![counts(0, 5, 4)]));
    assert_eq!(receipts.deadline(), Some(ANSWER_TIME));
    assert_eq!(receipts.expire(ANSWER_TIME - Duration::from_millis(1)), []);
    let receipt = receipts.expire(ANSWER_TIME).pop().unwrap();
    assert_eq!(receipt.nodes, 1);
    assert_eq!(receipt.missing, ["n1".into(), "n3".into()]);
    assert_eq!(online(&receipt.results), (5, 4));
    // Too late.
    assert_eq!(receipts.answer(incarnation(3), answer(1, Vec::new())), None);
}

#[test]
fn a_receipt_does_not_wait_for_a_node_that_has_gone_and_names_it() {
    let mut receipts = Receipts::default();
    receipts.expect(ZERO, sequence(1), &table(2), results(1), 'a');
    receipts.expect(ZERO, sequence(2), &table(2), results(2), 'b');
    assert_eq!(receipts.answer(incarnation(1), answer(1, Vec::new())), None);
    let receipt = receipts.gone(incarnation(2)).pop().unwrap();
    assert_eq!((receipt.token, receipt.nodes), ('a', 1));
    assert_eq!(receipt.missing, ["n2".into()]);
    let receipt = receipts.answer(incarnation(1), answer(2, Vec::new()));
    assert_eq!(receipt.unwrap().missing, ["n2".into()]);
}

#[test]
fn early_answers_and_incomplete_receipts_are_bounded() {
    let mut receipts = Receipts::default();
    let ahead = EARLY_EVENTS_MAX as u64;
    for at in 1..=2 * ahead {
        assert_eq!(
            receipts.answer(incarnation(2), answer(at, Vec::new())),
            None
        );
    }
    // The first half was dropped: node 2 is missing there. The second half was kept.
    assert_eq!(
        receipts.expect(ZERO, sequence(1), &table(2), results(1), 1),
        []
    );
    receipts.answer(incarnation(1), answer(1, Vec::new()));
    let last = 2 * ahead;
    receipts.expect(ZERO, sequence(last), &table(2), results(last), 2);
    let receipt = receipts.answer(incarnation(1), answer(last, Vec::new()));
    assert_eq!(receipt.unwrap().nodes, 2);
    let mut given_up = 0;
    let table = table(2);
    for at in 1..=2 * AWAITED_MAX as u64 {
        let at = last + at;
        let receipts = receipts.expect(ZERO, sequence(at), &table, results(at), 3);
        given_up += receipts.len();
    }
    assert_eq!(given_up, AWAITED_MAX + 1);
    assert_eq!(receipts.awaited(), AWAITED_MAX);
}

fn heartbeat(node: u64) -> Heartbeat {
    Heartbeat {
        incarnation: incarnation(node),
        name: format!("n{node}").into(),
        version: "1".into(),
        applied: sequence(7),
        sessions: 3,
    }
}

#[test]
fn only_other_silent_nodes_are_declared_gone() {
    let (step, own) = (Duration::from_millis(500), Some(incarnation(1)));
    let mut membership = Membership::default();
    membership.sync(ZERO, &table(3));
    let mut now = ZERO;
    let mut gone = Vec::new();
    while now < 2 * SILENT_AFTER {
        now += step;
        membership.heartbeat(now, heartbeat(2));
        membership.heartbeat(now, heartbeat(9));
        let proposed = membership.poll_gone(now, own).into_iter();
        gone.extend(proposed.map(|it| (it, now)));
    }
    // Once, and again as the `NodeGone` is not in the log.
    let silent = incarnation(3);
    assert_eq!(gone, [(silent, SILENT_AFTER), (silent, 2 * SILENT_AFTER)]);
    membership.sync(now, &table(2));
    assert_eq!(membership.poll_gone(now + step, own), []);
    let status = membership.status(now);
    let names: Vec<_> = status.iter().map(|it| (&*it.name, it.sessions)).collect();
    assert_eq!(names, [("n1", 0), ("n2", 3)]);
}

/// A node that was stopped for six seconds finds all others silent, because their heartbeats are
/// still unread in its socket.
#[test]
fn a_node_that_stalled_or_was_disconnected_declares_no_other_gone() {
    let own = Some(incarnation(1));
    let mut membership = Membership::default();
    membership.sync(ZERO, &table(3));
    assert_eq!(membership.poll_gone(ZERO, own), []);
    let mut now = SILENT_AFTER + STOOD_STILL_AFTER;
    assert_eq!(membership.poll_gone(now, own), []);
    now += SILENT_AFTER - Duration::from_secs(1);
    membership.reset(now);
    for _ in 0..4 {
        now += Duration::from_secs(1);
        assert_eq!(membership.poll_gone(now, own), []);
    }
}

#[test]
fn silence_of_other_nodes_is_reported_whether_or_not_this_one_is_in_the_log() {
    let mut membership = Membership::default();
    assert!(membership.hears_all(ZERO, None), "there is no other");
    membership.sync(ZERO, &table(3));
    let now = SILENT_AFTER;
    assert!(!membership.hears_all(now, Some(incarnation(1))));
    membership.heartbeat(now, heartbeat(2));
    assert!(
        !membership.hears_all(now, Some(incarnation(1))),
        "3 is silent"
    );
    membership.heartbeat(now, heartbeat(3));
    assert!(membership.hears_all(now, Some(incarnation(1))));
    assert!(!membership.hears_all(now, None), "1 is another node then");
    assert!(!membership.hears_all(now + SILENT_AFTER, Some(incarnation(1))));
}

#[test]
fn of_nodes_with_one_name_only_the_first_live_one_stays() {
    let names = ["a", "b", "a", "c", "a"];
    let table = table_of(&names);
    // Returns the namesake that node `own` finds after heartbeats of nodes and what they have
    // applied.
    let finds = |own: u64, heard: &[(u64, u64)]| {
        let mut membership = Membership::default();
        membership.sync(ZERO, &table);
        for &(number, applied) in heard {
            let heartbeat = Heartbeat {
                applied: sequence(applied),
                ..heartbeat(number)
            };
            membership.heartbeat(ZERO, heartbeat);
        }
        membership.namesake(incarnation(own))
    };
    let all = [(1, 9), (2, 9), (3, 9), (4, 9), (5, 9)];
    let found = [1, 2, 3, 4, 5].map(|own| finds(own, &all).is_some());
    assert_eq!(found, [false, false, true, false, true]);
    assert_eq!(finds(3, &all), Some(incarnation(1)));
    // The first one has died, and its last heartbeat is from before the others began.
    assert_eq!(finds(3, &[(1, 2), (5, 9)]), None);
    assert_eq!(finds(5, &[(1, 4), (3, 9)]), Some(incarnation(3)));
    assert_eq!(finds(5, &[(1, 4), (3, 4)]), None);
    assert_eq!(finds(3, &[]), None);
    // A node that is not in the table finds no namesake.
    assert_eq!(finds(7, &all), None);
}

#[test]
fn heartbeats_come_once_a_second() {
    let mut membership = Membership::default();
    let times = (0..100).map(|tenths| Duration::from_millis(100 * tenths));
    let sent = times.filter(|&now| membership.poll_heartbeat(now)).count();
    assert_eq!(sent, 10);
}

fn event_counts() -> impl Strategy<Value = EventCounts> {
    let counts = prop_oneof![0..300_u32, any::<u32>()];
    (any::<u16>(), prop::array::uniform4(counts)).prop_map(|(index, counts)| {
        let [online, written, queued, shed] = counts;
        EventCounts {
            index,
            online,
            written,
            queued,
            shed,
        }
    })
}

fn answers() -> impl Strategy<Value = Answers> {
    let events = prop::collection::vec(event_counts(), 0..5).prop_map(|mut events| {
        events.sort_by_key(|event| event.index);
        events.dedup_by_key(|event| event.index);
        events
    });
    let answer = (0..1_u64 << 48, events).prop_map(|(at, events)| answer(at, events));
    let answers = prop::collection::vec(answer, 0..4);
    (1..u64::MAX, answers).prop_map(|(node, answers)| Answers {
        node: incarnation(node),
        answers,
    })
}

proptest! {
    #[test]
    fn answers_are_decoded_and_refused_if_truncated(answers in answers()) {
        let bytes = answers.encode().unwrap();
        prop_assert_eq!(Answers::decode(&bytes), Ok(answers));
        for end in 0..bytes.len() {
            prop_assert!(Answers::decode(&bytes.slice(..end)).is_err(), "cut at {}", end);
        }
        prop_assert!(Heartbeat::decode(&bytes).is_err());
    }

    #[test]
    fn heartbeats_are_decoded_and_refused_if_truncated(
        node in 1..u64::MAX, name in "[a-z]{0,64}", at in 0..1_u64 << 48, sessions: u64,
    ) {
        let heartbeat = Heartbeat {
            name: name.into(),
            applied: sequence(at),
            sessions,
            ..heartbeat(node)
        };
        let bytes = heartbeat.encode().unwrap();
        prop_assert_eq!(Heartbeat::decode(&bytes), Ok(heartbeat));
        for end in 0..bytes.len() {
            prop_assert!(Heartbeat::decode(&bytes.slice(..end)).is_err(), "cut at {}", end);
        }
    }
}

#[test]
fn an_answer_with_a_repeated_event_is_refused() {
    let twice = Answers {
        node: incarnation(1),
        answers: vec![answer(1, vec![counts(4, 1, 1), counts(4, 1, 1)])],
    };
    assert!(Answers::decode(&twice.encode().unwrap()).is_err());
}

#[test]
fn messages_are_bounded() {
    let indexes = 0..=u16::MAX;
    let events: Vec<_> = indexes.map(|index| counts(index, u32::MAX, 0)).collect();
    let large = Answers {
        node: incarnation(1),
        answers: vec![answer(1, events.clone()), answer(2, events)],
    };
    assert!(matches!(large.encode(), Err(DecodeError::TooLong { .. })));
    let many = |count| Answers {
        node: incarnation(1),
        answers: (1..=count).map(|at| answer(at, Vec::new())).collect(),
    };
    assert!(many(4096).encode().is_ok());
    assert!(matches!(
        many(4097).encode(),
        Err(DecodeError::TooLong { .. })
    ));
    let long = Heartbeat {
        name: "n".repeat(65).into(),
        ..heartbeat(1)
    };
    assert!(long.encode().is_err());
}

fn report(node: u64, state: NodeState) -> Report {
    Report {
        incarnation: incarnation(node),
        state,
        counters: NodeCounters {
            uptime: Duration::from_micros(1_000_001),
            lag: Duration::from_millis(2),
            workers: 3,
            busy: Duration::from_millis(4),
            connections: 5,
            sessions: 6,
            written: 7,
            bytes_written: 8,
            backlog_bytes: 9,
            waiting_bytes: 10,
            disconnects: u64::MAX,
        },
    }
}

#[test]
fn reports_are_decoded_and_other_bytes_refused() {
    for state in [
        NodeState::Unknown,
        NodeState::Ready,
        NodeState::NotReady,
        NodeState::Draining,
    ] {
        let report = report(1, state);
        let bytes = report.encode();
        assert_eq!(Report::decode(&bytes), Ok(report));
        for cut in 0..bytes.len() {
            assert!(Report::decode(&bytes.slice(..cut)).is_err(), "{cut}");
        }
        let longer = [&bytes[..], b"x"].concat();
        assert!(Report::decode(&longer.into()).is_err());
    }
}

#[test]
fn a_report_of_another_version_has_the_common_counters() {
    let bytes = report(1, NodeState::Ready).encode();
    // Kind, incarnation and state, and the number of counters.
    let (head, counters) = (&bytes[..10], &bytes[11..]);
    let newer = [head, &[12], counters, &[7; 8]].concat();
    assert_eq!(
        Report::decode(&newer.into()),
        Ok(report(1, NodeState::Ready))
    );
    let older = [head, &[2], &counters[..16]].concat();
    let found = Report::decode(&older.into()).unwrap().counters;
    assert_eq!(found.lag, Duration::from_millis(2));
    assert_eq!((found.workers, found.disconnects), (0, 0));
    let mut unknown = bytes.to_vec();
    unknown[9] = 9;
    let found = Report::decode(&unknown.into()).unwrap();
    assert_eq!(found.state, NodeState::Unknown);
    // Too many counters are refused.
    let many = [head, &[u8::MAX], &[0; 8 * 255]].concat();
    assert!(matches!(
        Report::decode(&many.into()),
        Err(DecodeError::TooLong { .. })
    ));
}

#[test]
fn requests_to_drain_are_not_their_answers() {
    let node = incarnation(7);
    let (request, answer) = (DrainMessage::Request, DrainMessage::Answer);
    let bytes = request.encode(node);
    assert_eq!(request.decode(&bytes), Ok(node));
    assert_eq!(answer.decode(&answer.encode(node)), Ok(node));
    assert!(request.decode(&answer.encode(node)).is_err() && answer.decode(&bytes).is_err());
    for cut in 0..bytes.len() {
        assert!(request.decode(&bytes.slice(..cut)).is_err(), "{cut}");
    }
}

#[test]
fn a_report_is_stored_for_known_nodes_and_does_not_end_their_silence() {
    let mut membership = Membership::default();
    membership.sync(ZERO, &table(2));
    membership.report(report(2, NodeState::Draining));
    membership.report(report(3, NodeState::Ready));
    let now = Duration::from_secs(4);
    let states: Vec<_> = membership
        .status(now)
        .into_iter()
        .map(|node| (node.name, node.state, node.counters.workers, node.silent))
        .collect();
    assert_eq!(
        states,
        [
            ("n1".into(), NodeState::Unknown, 0, now),
            ("n2".into(), NodeState::Draining, 3, now)
        ]
    );
    assert_eq!(
        membership.find(now, "n2").map(|node| node.incarnation),
        Some(incarnation(2))
    );
    assert_eq!(membership.find(now, "n3"), None);
}
