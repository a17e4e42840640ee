//! Any bytes as an entry, a checkpoint, a manifest or a message between nodes: refused, or exactly
//! one, which is written with the same bytes again, and refused when it is cut. The first byte
//! chooses.
#![no_main]

use std::fmt::Debug;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use replication::{
    Answers, Checkpoint, DecodeError, Entry, EntryHead, Heartbeat, Outcome, Reader,
    SnapshotManifest, StreamSequence,
};

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    let bytes = Bytes::copy_from_slice(rest);
    match kind % 5 {
        0 => {
            if let Some(entry) = check(&bytes, Entry::decode, Entry::encode) {
                assert_eq!(EntryHead::decode(&bytes), Ok(entry.head()));
            }
            read(&bytes);
        }
        1 => {
            let encode = |it: &Checkpoint| Ok(it.encode().into());
            if let Some(checkpoint) = check(&bytes, Checkpoint::decode, encode) {
                assert!(Reader::new(checkpoint).next() > StreamSequence::ZERO);
            }
        }
        2 => drop(check(&bytes, Heartbeat::decode, Heartbeat::encode)),
        3 => drop(check(&bytes, Answers::decode, Answers::encode)),
        _ => drop(check(
            &bytes,
            SnapshotManifest::decode,
            SnapshotManifest::encode,
        )),
    }
});

fn check<T: Debug + PartialEq>(
    bytes: &Bytes,
    decode: impl Fn(&Bytes) -> Result<T, DecodeError>,
    encode: impl Fn(&T) -> Result<Bytes, DecodeError>,
) -> Option<T> {
    let value = decode(bytes).ok()?;
    let again = encode(&value).expect("what was read can be written");
    assert_eq!(again, bytes);
    for end in 0..bytes.len() {
        assert!(
            decode(&bytes.slice(..end)).is_err(),
            "{end} bytes are enough"
        );
    }
    Some(value)
}

/// Reads the bytes as every entry of a short log: they count at most once.
fn read(bytes: &Bytes) {
    let mut reader = Reader::default();
    let mut counted = 0;
    for number in 1..=4 {
        assert_eq!(reader.next().number(), number);
        let Ok(read) = reader.read(reader.next(), bytes) else {
            return;
        };
        counted += usize::from(matches!(read.outcome, Outcome::Counts(_)));
        assert_eq!(reader.table().members().len(), counted);
    }
    assert!(counted <= 1, "nothing counts twice");
}
