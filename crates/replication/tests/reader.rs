//! The rule that decides which entries count, case by case.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use bytes::Bytes;
use graph::{Change, Id};
use replication::{
    Checkpoint, Command, DecodeError, Entry, INCARNATIONS_MAX, Incarnation, Outcome, Read,
    ReadError, Reader, Skip, SnapshotManifest, StreamSequence,
};

fn incarnation(number: u64) -> Incarnation {
    Incarnation::new(number).unwrap()
}

fn sequence(number: u64) -> StreamSequence {
    StreamSequence::new(number).unwrap()
}

fn entry(writer: u64, number: u64, commands: Vec<Command>) -> Bytes {
    let incarnation = incarnation(writer);
    let entry = Entry {
        incarnation,
        number,
        commands,
    };
    entry.encode().unwrap()
}

fn up(writer: u64, after: u64) -> Bytes {
    let command = Command::NodeUp {
        name: format!("n{writer}").into(),
        version: "1".into(),
        after: sequence(after),
    };
    entry(writer, 1, vec![command])
}

fn remove(writer: u64, number: u64) -> Bytes {
    let id = Id::Integer(number);
    entry(writer, number, vec![Command::Change(Change::Remove { id })])
}

fn gone(writer: u64, number: u64, whom: u64) -> Bytes {
    let incarnation = incarnation(whom);
    entry(writer, number, vec![Command::NodeGone { incarnation }])
}

/// Reads `bytes` as the next entry of the log.
fn read(reader: &mut Reader, bytes: &Bytes) -> Read {
    reader.read(reader.next(), bytes).unwrap()
}

/// Reads `bytes` as the next entry, and returns why it does not count.
fn skipped(reader: &mut Reader, bytes: &Bytes) -> Option<Skip> {
    match read(reader, bytes).outcome {
        Outcome::Counts(_) => None,
        Outcome::Skipped(skip) => Some(skip),
    }
}

#[test]
fn an_entry_counts_only_if_its_number_is_the_next() {
    let mut reader = Reader::default();
    let unknown = Some(Skip::UnknownIncarnation);
    assert_eq!(skipped(&mut reader, &remove(1, 2)), unknown);
    assert_eq!(skipped(&mut reader, &remove(1, 1)), Some(Skip::NoNodeUp));
    assert_eq!(skipped(&mut reader, &up(1, 0)), None);
    assert_eq!(skipped(&mut reader, &up(1, 0)), Some(Skip::Repeat));
    let early = Some(Skip::OutOfTurn { expected: 2 });
    assert_eq!(skipped(&mut reader, &remove(1, 3)), early);
    assert_eq!(skipped(&mut reader, &remove(1, 2)), None);
    assert_eq!(skipped(&mut reader, &remove(1, 3)), None);
    assert_eq!(skipped(&mut reader, &remove(1, 2)), Some(Skip::Repeat));
    assert_eq!(reader.table().member(incarnation(1)).unwrap().last, 3);
}

#[test]
fn a_gap_is_an_error_and_leaves_the_reader_unchanged() {
    let mut reader = Reader::default();
    read(&mut reader, &up(1, 0));
    let before = reader.checkpoint().clone();
    let gap = reader.read(sequence(3), &remove(1, 2)).unwrap_err();
    let (expected, found) = (sequence(2), sequence(3));
    assert_eq!(gap, ReadError::Gap { expected, found });
    assert!(gap.to_string().contains("entry 2 is the next"), "{gap}");
    let found = sequence(1);
    let again = reader.read(found, &up(1, 0)).unwrap_err();
    assert_eq!(again, ReadError::AlreadyRead { expected, found });
    let bytes = Bytes::from_static(&[9]);
    let unreadable = reader.read(sequence(2), &bytes).unwrap_err();
    let (sequence, error) = (sequence(2), DecodeError::Version { found: 9 });
    assert_eq!(unreadable, ReadError::Entry { sequence, error });
    assert_eq!(*reader.checkpoint(), before);
}

/// A copy of an entry may come late: a stopped server of the engine may continue after the node was
/// declared gone, and deliver what it had. The table has forgotten the incarnation by then.
#[test]
fn no_entry_of_an_incarnation_that_has_gone_counts() {
    let mut reader = Reader::default();
    for bytes in [up(1, 0), up(2, 0), remove(1, 2), remove(1, 3)] {
        assert_eq!(skipped(&mut reader, &bytes), None);
    }
    assert_eq!(read(&mut reader, &gone(2, 2, 1)).ended, [incarnation(1)]);
    assert_eq!(skipped(&mut reader, &up(1, 0)), Some(Skip::StaleNodeUp));
    let unknown = Some(Skip::UnknownIncarnation);
    for number in [2, 3, 4] {
        assert_eq!(skipped(&mut reader, &remove(1, number)), unknown);
    }
    // A writer that has read the `NodeGone` may begin.
    assert_eq!(skipped(&mut reader, &up(3, 4)), Some(Skip::StaleNodeUp));
    assert_eq!(skipped(&mut reader, &up(3, 5)), None);
    // A first entry cannot have read later entries.
    assert_eq!(skipped(&mut reader, &up(4, 99)), Some(Skip::StaleNodeUp));
}

#[test]
fn a_repeated_node_gone_has_no_effect() {
    let mut reader = Reader::default();
    for bytes in [up(1, 0), up(2, 0), up(3, 0), gone(2, 2, 1)] {
        assert_eq!(skipped(&mut reader, &bytes), None);
    }
    assert_eq!(read(&mut reader, &gone(3, 2, 1)).ended, []);
    assert_eq!(skipped(&mut reader, &up(4, 4)), None);
}

#[test]
fn an_entry_that_ends_its_own_incarnation_counts_and_is_the_last() {
    let mut reader = Reader::default();
    read(&mut reader, &up(1, 0));
    let last = read(&mut reader, &gone(1, 2, 1));
    assert!(matches!(last.outcome, Outcome::Counts(_)));
    assert_eq!(last.ended, [incarnation(1)]);
    let unknown = Some(Skip::UnknownIncarnation);
    assert_eq!(skipped(&mut reader, &remove(1, 3)), unknown);
}

#[test]
fn the_table_is_bounded_and_has_room_again_after_a_node_has_gone() {
    let mut reader = Reader::default();
    let full = INCARNATIONS_MAX as u64;
    for writer in 1..=full {
        assert_eq!(skipped(&mut reader, &up(writer, writer - 1)), None);
    }
    let more = up(full + 1, full);
    assert_eq!(skipped(&mut reader, &more), Some(Skip::TableFull));
    assert_eq!(skipped(&mut reader, &gone(1, 2, 7)), None);
    assert_eq!(skipped(&mut reader, &up(full + 1, full + 2)), None);
    assert_eq!(reader.table().members().len(), INCARNATIONS_MAX);
}

#[test]
fn a_checkpoint_is_decoded_and_refused_if_truncated() {
    let mut reader = Reader::default();
    for bytes in [up(1, 0), up(2, 0), up(3, 0), gone(2, 2, 1), remove(3, 2)] {
        read(&mut reader, &bytes);
    }
    let bytes = Bytes::from(reader.checkpoint().encode());
    let again = Checkpoint::decode(&bytes).unwrap();
    assert_eq!(again, *reader.checkpoint());
    for end in 0..bytes.len() {
        assert!(Checkpoint::decode(&bytes.slice(..end)).is_err(), "{end}");
    }
    let mut restarted = Reader::new(again);
    assert_eq!(skipped(&mut restarted, &remove(3, 2)), Some(Skip::Repeat));
    assert_eq!(skipped(&mut restarted, &remove(3, 3)), None);
    assert_eq!(skipped(&mut restarted, &up(1, 0)), Some(Skip::StaleNodeUp));
}

#[test]
fn a_manifest_is_decoded_and_refused_if_truncated() {
    let mut reader = Reader::default();
    let mut places = Vec::new();
    for bytes in [up(1, 0), up(2, 0), remove(1, 2)] {
        read(&mut reader, &bytes);
        places.push(reader.checkpoint().clone());
    }
    let checkpoint = places.pop().unwrap();
    let mut manifest = SnapshotManifest {
        epoch: "k3v9".into(),
        checkpoint,
        earlier: places,
        bytes: 1 << 40,
        checksum: [7; 32],
    };
    let bytes = manifest.encode().unwrap();
    assert_eq!(SnapshotManifest::decode(&bytes), Ok(manifest.clone()));
    for end in 0..bytes.len() {
        assert!(
            SnapshotManifest::decode(&bytes.slice(..end)).is_err(),
            "{end}"
        );
    }
    manifest.earlier.reverse();
    assert!(manifest.encode().is_err());
    manifest.earlier = (1..=65)
        .map(|writer| {
            read(&mut reader, &up(writer + 10, writer + 9));
            reader.checkpoint().clone()
        })
        .collect();
    manifest.checkpoint = manifest.earlier.pop().unwrap();
    assert!(manifest.encode().is_ok(), "64 earlier places");
    let last = std::mem::replace(&mut manifest.checkpoint, {
        read(&mut reader, &up(99, 98));
        reader.checkpoint().clone()
    });
    manifest.earlier.push(last);
    assert!(manifest.encode().is_err(), "65 earlier places");
    manifest.earlier.clear();
    manifest.epoch = "".into();
    assert!(manifest.encode().is_err());
    manifest.epoch = "e".repeat(65).into();
    assert!(manifest.encode().is_err());
}
