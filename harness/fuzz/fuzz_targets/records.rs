//! Any bytes as records of the event log: whole records or none, also when their checksums are
//! right, and none that stands at another place or under another salt.
#![no_main]

// By its path: records are the log's own affair.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../crates/eventlog/src/record.rs"]
mod record;

use libfuzzer_sys::fuzz_target;
use record::{Record, is_damage, reaches, read, seal, size};
use router::Restored;

const SALT: u32 = 0x5eed_5a17;
/// Bytes before the first record.
const OFFSET: usize = 16;

fuzz_target!(|data: &[u8]| {
    let file = [&[0; OFFSET], data].concat();
    read_all(&file);
    is_damage(&file, SALT, OFFSET, 7);
    // The same with right checksums, as far as the lengths go.
    let mut sealed = file.clone();
    let mut at = OFFSET;
    while let Some(bytes) = size(&sealed[at..]).filter(|&bytes| at + bytes <= sealed.len()) {
        seal(&mut sealed[at..at + bytes], SALT, at as u64);
        at += bytes;
    }
    read_all(&sealed);
    is_damage(&sealed, SALT, OFFSET, 7);
});

fn read_all(file: &[u8]) {
    let mut at = OFFSET;
    while let Some((record, bytes)) = read(file, SALT, at) {
        let whole = &file[at..at + bytes];
        assert_eq!(size(whole), Some(bytes));
        match record {
            Record::History(Restored::Event(event)) => {
                assert_eq!(reaches(whole), Some(event.position));
            }
            Record::History(Restored::Lost(position) | Restored::Skipped(position)) => {
                assert_eq!(reaches(whole), Some(position));
            }
            Record::Synced(_) | Record::History(Restored::Note(_)) => {
                assert_eq!(reaches(whole), None);
            }
            Record::History(Restored::Abandoned(_)) => panic!("no record says that"),
        }
        assert!(read(file, SALT ^ 1, at).is_none(), "another file's");
        let moved = [&[0], file].concat();
        assert!(read(&moved, SALT, at + 1).is_none(), "another place's");
        let cut = &file[..at + bytes - 1];
        assert!(read(cut, SALT, at).is_none(), "cut short");
        at += bytes;
    }
}
