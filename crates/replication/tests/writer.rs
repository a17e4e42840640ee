//! The writer, step by step: when it sends entries, and the results of its appends.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::Duration;

use graph::{Change, Id};
use replication::{
    ANSWER_WITHIN, AppendError, Command, GROUP_BYTES_MAX, GROUP_TIME, IN_FLIGHT_MAX, Incarnation,
    Outgoing, RESEND_AFTER, RESEND_STORED_AFTER, Read, Reader, StreamSequence, UNAVAILABLE_AFTER,
    Writer, WriterOptions, shared,
};

const ZERO: Duration = Duration::ZERO;

fn options() -> WriterOptions {
    WriterOptions::new("a", "1", 1 << 20).unwrap()
}

fn remove(id: u64) -> Vec<Command> {
    let id = Id::Integer(id);
    vec![Command::Change(Change::Remove { id })]
}

fn large(bytes: usize) -> Vec<Command> {
    let piece = bytes.min(60_000);
    let command = Command::Shared {
        kind: shared::PRESENCE,
        bytes: vec![0; piece].into(),
    };
    vec![command; bytes / piece]
}

/// A writer and a reader of the same node, with a lossless log.
struct Node {
    writer: Writer<u64>,
    reader: Reader,
}

impl Node {
    fn new() -> Self {
        let incarnation = Incarnation::new(1).unwrap();
        let mut node = Self {
            writer: Writer::new(options(), incarnation, StreamSequence::ZERO),
            reader: Reader::default(),
        };
        let up = node.writer.poll_send(ZERO).unwrap();
        assert_eq!(node.store(&up), [0; 0]);
        node
    }

    /// Stores an entry in the log and reads it back. Returns the tokens that count with it.
    fn store(&mut self, entry: &Outgoing) -> Vec<u64> {
        let read = self.reader.read(self.reader.next(), &entry.bytes).unwrap();
        let finished = self.writer.read_back(&read).unwrap();
        finished.into_iter().map(|it| it.token).collect()
    }

    fn read(&self) -> StreamSequence {
        self.reader.checkpoint().read
    }

    fn append(&mut self, now: Duration, commands: &[Command], token: u64) {
        self.writer.append(now, commands, token).unwrap();
    }

    fn send_all(&mut self, now: Duration) -> Vec<Outgoing> {
        std::iter::from_fn(|| self.writer.poll_send(now)).collect()
    }
}

fn numbers(entries: &[Outgoing]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

#[test]
fn a_single_append_is_sent_at_once_and_later_ones_share_an_entry() {
    let mut node = Node::new();
    node.append(ZERO, &remove(1), 1);
    let first = node.send_all(ZERO);
    assert_eq!(numbers(&first), [2]);
    node.append(ZERO, &remove(2), 2);
    node.append(GROUP_TIME / 2, &remove(3), 3);
    assert_eq!(numbers(&node.send_all(GROUP_TIME / 2)), [0; 0]);
    assert_eq!(node.writer.deadline(), Some(GROUP_TIME));
    let second = node.send_all(GROUP_TIME);
    assert_eq!(numbers(&second), [3]);
    assert_eq!(node.store(&first[0]), [1]);
    assert_eq!(node.store(&second[0]), [2, 3]);
    assert_eq!(node.writer.waiting_bytes(), 0);
}

#[test]
fn entries_are_bounded_in_bytes_and_a_large_append_has_its_own() {
    let mut node = Node::new();
    node.append(ZERO, &remove(1), 1);
    node.send_all(ZERO);
    node.append(ZERO, &large(GROUP_BYTES_MAX / 2), 2);
    node.append(ZERO, &large(GROUP_BYTES_MAX - 60_000), 3);
    node.append(ZERO, &large(600_000), 4);
    node.append(ZERO, &remove(1), 5);
    let sent = node.send_all(GROUP_TIME);
    assert_eq!(numbers(&sent), [3, 4, 5, 6]);
    let refused = node.writer.append(ZERO, &large(2 << 20), 6).unwrap_err();
    assert!(matches!(refused.error, AppendError::TooLarge { .. }));
}

#[test]
fn entries_in_flight_and_memory_are_bounded() {
    let mut node = Node::new();
    let mut sent = Vec::new();
    let bytes = 120_000;
    let mut accepted = 0;
    let refused = loop {
        match node.writer.append(ZERO, &large(bytes), accepted) {
            Ok(()) => accepted += 1,
            Err(refused) => break refused,
        }
        sent.extend(node.send_all(ZERO));
    };
    assert_eq!(refused.error, AppendError::Full);
    assert!(node.writer.waiting_bytes() <= WriterOptions::WAITING_BYTES_MAX);
    assert!(accepted as usize > WriterOptions::WAITING_BYTES_MAX / bytes - 10);
    sent.extend(node.send_all(GROUP_TIME));
    assert_eq!(sent.len(), IN_FLIGHT_MAX);
    // One read back gives room for one.
    let finished = node.store(&sent[0]);
    assert_eq!(node.send_all(GROUP_TIME).len(), 1);
    assert_eq!(finished, [0]);
}

#[test]
fn a_timeout_resends_the_first_unacknowledged_entry_then_all_later_ones() {
    let mut node = Node::new();
    let mut sent = Vec::new();
    for token in 0..4 {
        node.append(ZERO, &large(GROUP_BYTES_MAX), token);
        sent.extend(node.send_all(GROUP_TIME));
    }
    let incarnation = sent[0].incarnation;
    let place = StreamSequence::new(2).unwrap();
    node.writer.acknowledged(incarnation, sent[0].number, place);
    let late = GROUP_TIME + RESEND_AFTER;
    // One entry suffices to find out whether the engine is back.
    let probe = node.send_all(late);
    assert_eq!(probe, sent[1..2]);
    node.writer
        .acknowledged(incarnation, probe[0].number, place.next());
    assert_eq!(node.send_all(late), sent[2..]);
    assert_eq!(node.writer.resent(), 3);
}

#[test]
fn an_entry_out_of_order_is_resent_at_once_and_only_once() {
    let mut node = Node::new();
    let mut sent = Vec::new();
    for token in 0..4 {
        node.append(ZERO, &large(GROUP_BYTES_MAX), token);
        sent.extend(node.send_all(GROUP_TIME));
    }
    // The first one is lost.
    assert_eq!(node.store(&sent[1]), [0; 0]);
    let again = node.send_all(ZERO);
    assert_eq!(again, sent);
    assert_eq!(node.store(&sent[2]), [0; 0]);
    assert_eq!(node.store(&sent[3]), [0; 0]);
    assert_eq!(node.send_all(ZERO), []);
    for (token, entry) in (0..).zip(&again) {
        assert_eq!(node.store(entry), [token]);
    }
}

#[test]
fn a_new_connection_gets_all_entries_from_the_first_unacknowledged_one() {
    let mut node = Node::new();
    let mut sent = Vec::new();
    for token in 0..3 {
        node.append(ZERO, &large(GROUP_BYTES_MAX), token);
        sent.extend(node.send_all(GROUP_TIME));
    }
    let place = StreamSequence::new(2).unwrap();
    let (incarnation, number) = (sent[0].incarnation, sent[0].number);
    node.writer.acknowledged(incarnation, number, place);
    node.writer.disconnected(GROUP_TIME);
    assert_eq!(node.send_all(GROUP_TIME), []);
    node.writer.connected();
    assert_eq!(node.send_all(GROUP_TIME), sent[1..]);
}

/// The engine may lose an acknowledged entry, for example with a server's disk or a stream in
/// memory.
#[test]
fn an_acknowledged_entry_that_is_not_read_back_is_resent() {
    let mut node = Node::new();
    let mut sent = Vec::new();
    for token in 0..2 {
        node.append(ZERO, &large(GROUP_BYTES_MAX), token);
        sent.extend(node.send_all(GROUP_TIME));
    }
    for (place, entry) in (2..).zip(&sent) {
        let place = StreamSequence::new(place).unwrap();
        let (incarnation, number) = (entry.incarnation, entry.number);
        node.writer.acknowledged(incarnation, number, place);
    }
    assert_eq!(node.send_all(RESEND_AFTER * 2), []);
    // No entry is read: it is resent after a timeout.
    let late = GROUP_TIME + RESEND_STORED_AFTER;
    assert_eq!(node.send_all(late), sent[..1]);
    node.writer
        .acknowledged(sent[0].incarnation, 2, StreamSequence::new(2).unwrap());
    assert_eq!(node.send_all(late), sent[1..]);
    // Another entry is at the acknowledged sequence: it is resent at once.
    node.writer
        .acknowledged(sent[1].incarnation, 3, StreamSequence::new(3).unwrap());
    let mut other = sent[0].clone();
    other.bytes = node_up_of_another();
    assert_eq!(node.store(&other), [0; 0]);
    assert_eq!(node.send_all(late), sent);
}

fn node_up_of_another() -> bytes::Bytes {
    let incarnation = Incarnation::new(2).unwrap();
    let mut writer = Writer::<u64>::new(options(), incarnation, StreamSequence::ZERO);
    writer.poll_send(ZERO).unwrap().bytes
}

/// Returns the entry with which another node declares this one gone.
fn node_gone(node: &mut Node) -> Read {
    let incarnation = node.writer.incarnation().unwrap();
    let mut other = Writer::<u64>::new(options(), Incarnation::new(2).unwrap(), node.read());
    let up = other.poll_send(ZERO).unwrap();
    let read = node.reader.read(node.reader.next(), &up.bytes).unwrap();
    other.read_back(&read).unwrap();
    node.writer.read_back(&read).unwrap();
    let gone = [Command::NodeGone { incarnation }];
    other.append(ZERO, &gone, 0).unwrap();
    let gone = other.poll_send(ZERO).unwrap();
    node.reader.read(node.reader.next(), &gone.bytes).unwrap()
}

#[test]
fn appends_not_read_back_before_the_node_gone_continue_under_a_new_incarnation() {
    let mut node = Node::new();
    node.append(ZERO, &remove(1), 1);
    let first = node.send_all(ZERO);
    for token in 2..4 {
        node.append(ZERO, &large(GROUP_BYTES_MAX), token);
    }
    let lost = node.send_all(GROUP_TIME);
    assert_eq!(numbers(&lost), [3, 4]);
    node.append(GROUP_TIME, &remove(4), 4);
    assert_eq!(node.store(&first[0]), [1]);
    let gone = node_gone(&mut node);
    assert_eq!(node.writer.read_back(&gone).unwrap(), []);
    assert!(node.writer.needs_incarnation());
    assert_eq!(node.send_all(GROUP_TIME * 2), []);
    node.writer.renew(Incarnation::new(3).unwrap());
    let up = node.send_all(GROUP_TIME * 2);
    assert_eq!(numbers(&up), [1]);
    // Late copies do not count.
    assert_eq!(node.store(&lost[0]), [0; 0]);
    assert_eq!(node.store(&up[0]), [0; 0]);
    let again = node.send_all(GROUP_TIME * 2);
    assert_eq!(numbers(&again), [2, 3, 4]);
    for (token, entry) in (2..).zip(&again) {
        assert_eq!(node.store(entry), [token]);
    }
}

#[test]
fn a_node_that_ends_its_own_incarnation_has_left() {
    let mut node = Node::new();
    node.append(ZERO, &remove(1), 1);
    let first = node.send_all(ZERO);
    let incarnation = first[0].incarnation;
    node.append(ZERO, &[Command::NodeGone { incarnation }], 2);
    let last = node.send_all(GROUP_TIME);
    node.append(GROUP_TIME, &remove(3), 3);
    assert_eq!(node.store(&first[0]), [1]);
    assert_eq!(node.store(&last[0]), [2]);
    assert!(node.writer.has_left() && !node.writer.needs_incarnation());
    node.writer.renew(Incarnation::new(2).unwrap());
    assert_eq!(node.send_all(RESEND_AFTER), []);
    let unavailable = AppendError::Unavailable {
        retry_after: UNAVAILABLE_AFTER,
    };
    let refused = node.writer.append(RESEND_AFTER, &remove(4), 4);
    assert_eq!(refused.unwrap_err().error, unavailable);
    let ended = node.writer.end();
    let ended: Vec<_> = ended.iter().map(|it| (it.token, it.error)).collect();
    assert_eq!(ended, [(3, unavailable)]);
}

#[test]
fn an_append_is_answered_correctly_and_in_time() {
    let mut node = Node::new();
    for token in 0..2 {
        node.append(ZERO, &large(GROUP_BYTES_MAX), token);
    }
    assert!(node.writer.poll_send(ZERO).is_some());
    node.writer.disconnected(ZERO);
    assert_eq!(node.writer.poll_send(RESEND_AFTER), None);
    assert_eq!(node.writer.deadline(), Some(ANSWER_WITHIN));
    assert_eq!(node.writer.expire(ANSWER_WITHIN - GROUP_TIME), []);
    let expired = node.writer.expire(ANSWER_WITHIN);
    let unavailable = AppendError::Unavailable {
        retry_after: UNAVAILABLE_AFTER,
    };
    let expired: Vec<_> = expired.iter().map(|it| (it.token, it.error)).collect();
    assert_eq!(expired, [(0, AppendError::Unknown), (1, unavailable)]);
    let refused = node.writer.append(ANSWER_WITHIN, &remove(1), 2);
    assert_eq!(refused.unwrap_err().error, unavailable);
    // The entry must still be resolved, as it may be in the log.
    node.writer.connected();
    let again = node.send_all(ANSWER_WITHIN);
    assert_eq!(numbers(&again), [2]);
    assert_eq!(node.store(&again[0]), [0; 0]);
    assert_eq!(node.writer.waiting_bytes(), 0);
}

#[test]
fn an_entry_that_another_process_wrote_as_this_node_is_an_error() {
    let (mut node, mut copy) = (Node::new(), Node::new());
    copy.append(ZERO, &remove(1), 1);
    let theirs = copy.send_all(ZERO);
    let read = node.reader.read(node.reader.next(), &theirs[0].bytes);
    let error = node.writer.read_back(&read.unwrap()).unwrap_err();
    assert!(error.to_string().contains("another process"));
}

// If an operator lowers max_payload of the engine, an entry with a number would be sent for ever.
#[test]
fn an_entry_that_the_engine_no_longer_accepts_blocks_no_other() {
    let mut node = Node::new();
    node.append(ZERO, &large(300_000), 1);
    node.append(ZERO, &remove(2), 2);
    let sent = node.send_all(ZERO);
    assert_eq!(numbers(&sent), [2], "the small one waits for more");
    assert!(node.writer.limit(1 << 20).is_empty() && !node.writer.is_blocked());
    // A waiting append is refused at once, and an entry that was sent blocks later ones.
    node.append(ZERO, &large(200_000), 3);
    let refused: Vec<_> = node.writer.limit(100_000);
    let tokens: Vec<_> = refused.iter().map(|it| (it.token, it.error)).collect();
    let again = AppendError::Unavailable {
        retry_after: UNAVAILABLE_AFTER,
    };
    assert_eq!(tokens, [(2, again), (3, again)], "they share an entry");
    assert!(node.writer.is_blocked());
    let late = node.writer.append(ZERO, &large(200_000), 4).unwrap_err();
    assert!(matches!(late.error, AppendError::TooLarge { .. }));
    node.append(ZERO, &remove(5), 5);
    let own = node.writer.incarnation().unwrap();
    let [up, gone] = node
        .writer
        .end_incarnation(Incarnation::new(7).unwrap())
        .unwrap();
    for entry in [&up, &gone] {
        assert_eq!(node.store(entry), [0; 0]);
    }
    assert!(node.writer.needs_incarnation());
    let table = node.reader.table();
    assert_eq!(
        table.members().count(),
        0,
        "the other one has ended as well"
    );
    // A late copy does not count.
    assert_eq!(node.store(&sent[0]), [0; 0]);
    let refused = node.writer.limit(100_000);
    let tokens: Vec<_> = refused.iter().map(|it| it.token).collect();
    assert_eq!(tokens, [1]);
    assert!(matches!(refused[0].error, AppendError::TooLarge { .. }));
    node.writer.renew(Incarnation::new(8).unwrap());
    assert_ne!(node.writer.incarnation(), Some(own));
    let up = node.writer.poll_send(ZERO).unwrap();
    assert_eq!(node.store(&up), [0; 0]);
    let mut finished = Vec::new();
    for entry in node.send_all(GROUP_TIME) {
        finished.extend(node.store(&entry));
    }
    assert_eq!(finished.last(), Some(&5), "{finished:?}");
    assert_eq!(node.writer.waiting_bytes(), 0);
}
