//! Encoding of entries: they are decoded again, and nothing else is accepted.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use bytes::Bytes;
use graph::{Change, Id};
use history::Reach;
use proptest::prelude::*;
use replication::{
    Command, DecodeError, Entry, EntryHead, EventRecord, Incarnation, StreamSequence, shared,
};

fn id() -> impl Strategy<Value = Id> {
    prop_oneof![
        (0..=graph::ID_INTEGER_MAX).prop_map(Id::Integer),
        "[a-z:é]{1,12}".prop_map(|text| Id::parse(&text).unwrap()),
    ]
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    (1..=u64::MAX).prop_map(|random| Incarnation::new(random).unwrap())
}

fn event() -> impl Strategy<Value = EventRecord> {
    let kinds = (any::<bool>(), any::<bool>(), 0_u8..128);
    (id(), kinds, "[a-z]{0,9}", bytes()).prop_map(|(subject, kinds, event_type, payload)| {
        EventRecord {
            subject,
            reach: [Reach::Subscribers, Reach::Subject][usize::from(kinds.0)],
            is_stored: kinds.1,
            tag: kinds.2,
            event_type: event_type.into(),
            payload,
        }
    })
}

fn change() -> impl Strategy<Value = Change> {
    let two = (id(), id());
    prop_oneof![
        two.prop_map(|(subscriber, subject)| Change::Subscribe {
            subscriber,
            subject
        }),
        (id(), id()).prop_map(|(subscriber, subject)| Change::Unsubscribe {
            subscriber,
            subject
        }),
        (id(), prop::collection::vec(id(), 0..5)).prop_map(|(subscriber, subjects)| {
            Change::Replace {
                subscriber,
                subjects,
            }
        }),
        id().prop_map(|id| Change::Remove { id }),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let after = (0..1_u64 << 48).prop_map(|number| StreamSequence::new(number).unwrap());
    prop_oneof![
        event().prop_map(Command::Event),
        change().prop_map(Command::Change),
        ("[a-z]{0,9}", "[0-9.]{0,9}", after).prop_map(|(name, version, after)| Command::NodeUp {
            name: name.into(),
            version: version.into(),
            after,
        }),
        incarnation().prop_map(|incarnation| Command::NodeGone { incarnation }),
        (shared::REVOCATION..=shared::HIDDEN_ID, bytes())
            .prop_map(|(kind, bytes)| Command::Shared { kind, bytes }),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    let commands = prop::collection::vec(command(), 0..6);
    (incarnation(), 1..=u64::MAX, commands).prop_map(|(incarnation, number, commands)| Entry {
        incarnation,
        number,
        commands,
    })
}

proptest! {
    #[test]
    fn an_entry_is_decoded_to_the_same_entry(entry in entry()) {
        let bytes = entry.encode().unwrap();
        prop_assert_eq!(EntryHead::decode(&bytes), Ok(entry.head()));
        prop_assert_eq!(Entry::decode(&bytes), Ok(entry));
    }

    #[test]
    fn a_truncated_entry_is_refused(entry in entry()) {
        let bytes = entry.encode().unwrap();
        for end in 0..bytes.len() {
            prop_assert!(Entry::decode(&bytes.slice(..end)).is_err(), "cut at {}", end);
        }
    }

    #[test]
    fn each_accepted_entry_has_one_encoding(entry in entry(), at: prop::sample::Index, byte: u8) {
        let mut bytes = Vec::from(entry.encode().unwrap());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let bytes = Bytes::from(bytes);
        if let Ok(entry) = Entry::decode(&bytes) {
            prop_assert_eq!(entry.encode(), Ok(bytes));
        }
    }
}

#[test]
fn errors_of_newer_formats_suggest_an_update() {
    let incarnation = Incarnation::new(7).unwrap();
    let commands = vec![Command::NodeGone { incarnation }];
    let entry = Entry {
        incarnation,
        number: 1,
        commands,
    };
    let bytes = Vec::from(entry.encode().unwrap());
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        Entry::decode(&bytes.into()).unwrap_err()
    };
    assert_eq!(with(0, 2), DecodeError::Version { found: 2 });
    assert_eq!(with(21, 99), DecodeError::Command { found: 99 });
    for newer in [with(0, 2), with(21, 99)] {
        let text = newer.to_string();
        assert!(
            text.ends_with("may have written it: update this node"),
            "{text}"
        );
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let trailing = Entry::decode(&longer.into());
    assert_eq!(trailing, Err(DecodeError::Trailing { bytes: 1 }));
}

#[test]
fn a_count_allocates_no_memory_for_missing_items() {
    let entry = Entry {
        incarnation: Incarnation::new(7).unwrap(),
        number: 1,
        commands: Vec::new(),
    };
    let mut bytes = Vec::from(entry.encode().unwrap());
    bytes[17..21].copy_from_slice(&65_536_u32.to_le_bytes());
    let refused = Entry::decode(&bytes.clone().into());
    assert_eq!(refused, Err(DecodeError::Truncated));
    bytes[17..21].copy_from_slice(&65_537_u32.to_le_bytes());
    let refused = Entry::decode(&bytes.into());
    assert!(matches!(refused, Err(DecodeError::TooLong { .. })));
}

#[test]
fn a_command_that_could_not_be_decoded_is_not_encoded() {
    let refused = |command: Command| {
        let entry = Entry {
            incarnation: Incarnation::new(7).unwrap(),
            number: 1,
            commands: vec![command],
        };
        entry.encode().unwrap_err()
    };
    let event = EventRecord {
        subject: Id::Integer(1),
        reach: Reach::Subscribers,
        is_stored: true,
        tag: 0,
        event_type: "".into(),
        payload: Bytes::new(),
    };
    let long = "x".repeat(256);
    refused(Command::Event(EventRecord {
        event_type: long.as_str().into(),
        ..event.clone()
    }));
    refused(Command::Event(EventRecord {
        tag: 128,
        ..event.clone()
    }));
    refused(Command::Event(EventRecord {
        subject: Id::Text("12".into()),
        ..event
    }));
    refused(Command::Shared {
        kind: 200,
        bytes: Bytes::new(),
    });
    refused(Command::NodeUp {
        name: long.as_str().into(),
        version: "1".into(),
        after: StreamSequence::ZERO,
    });
    refused(Command::Shared {
        kind: 1,
        bytes: vec![0; (64 << 10) + 1].into(),
    });
}

#[test]
fn an_entry_is_bounded() {
    let entry = |bytes: usize| Entry {
        incarnation: Incarnation::new(7).unwrap(),
        number: 1,
        commands: vec![Command::Event(EventRecord {
            subject: Id::Integer(1),
            reach: Reach::Subscribers,
            is_stored: true,
            tag: 0,
            event_type: "".into(),
            payload: vec![0; bytes].into(),
        })],
    };
    assert!(entry((8 << 20) - 100).encode().is_ok());
    assert!(entry(8 << 20).encode().is_err());
    // Nor is one decoded that another version has encoded.
    let longer = [&entry(100).encode().unwrap()[..], &[0; 8 << 20]].concat();
    let error = Entry::decode(&longer.into()).unwrap_err();
    assert!(matches!(error, DecodeError::TooLong { .. }), "{error:?}");
}
