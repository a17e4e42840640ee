//! Measures the throughput of one core with entries of a hundred events: encoding, decoding, the
//! reader and the writer.
//!
//!     cargo run --release -p replication --example measure_replication

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::error::Error;
use std::hint::black_box;
use std::slice::from_ref;
use std::time::{Duration, Instant};

use bytes::Bytes;
use graph::Id;
use history::Reach;
use replication::{
    Command, Entry, EventRecord, Incarnation, Outcome, Reader, StreamSequence, Writer,
    WriterOptions,
};

const EVENTS: usize = 100;
const ENTRIES: u64 = 50_000;
const PAYLOAD_BYTES: usize = 120;
const ENTRY_BYTES_MAX: usize = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    println!("entries of {EVENTS} events with {PAYLOAD_BYTES} bytes of payload, one core");
    let incarnation = Incarnation::new(7).ok_or("not 0")?;
    let commands: Vec<Command> = (0..EVENTS as u32).map(event).collect();
    let entry = Entry {
        incarnation,
        number: 2,
        commands: commands.clone(),
    };

    let start = Instant::now();
    for _ in 0..ENTRIES {
        black_box(black_box(&entry).encode()?);
    }
    report("encode", start.elapsed());

    let bytes = entry.encode()?;
    let start = Instant::now();
    for _ in 0..ENTRIES {
        black_box(Entry::decode(black_box(&bytes))?);
    }
    report("decode", start.elapsed());

    // The writer and the reader of one node, with a lossless log between them.
    let options = WriterOptions::new("a", "1", ENTRY_BYTES_MAX).ok_or("too long")?;
    let mut writer = Writer::new(options, incarnation, StreamSequence::ZERO);
    let mut reader = Reader::default();
    let (mut writing, mut reading) = (Duration::ZERO, Duration::ZERO);
    let mut counted = 0;
    for turn in 0..=ENTRIES {
        let now = Duration::from_millis(turn);
        let start = Instant::now();
        let sent = writer.poll_send(now).ok_or("an entry to send")?;
        writing += start.elapsed();
        let start = Instant::now();
        let read = reader.read(reader.next(), &sent.bytes)?;
        reading += start.elapsed();
        counted += u64::from(matches!(read.outcome, Outcome::Counts(_)));
        let start = Instant::now();
        black_box(writer.read_back(&read)?);
        let appended = writer.append(now, black_box(&commands), ());
        appended.map_err(|refused| refused.error)?;
        writing += start.elapsed();
    }
    assert_eq!(counted, ENTRIES + 1);
    report("writer", writing);
    report("reader", reading);

    // Single publishes: one append for each event, a hundred of them in an entry.
    let start = Instant::now();
    for turn in 1..=ENTRIES {
        let now = Duration::from_millis(ENTRIES + turn);
        while let Some(sent) = writer.poll_send(now) {
            let read = reader.read(reader.next(), &sent.bytes)?;
            black_box(writer.read_back(&read)?);
        }
        for command in &commands {
            let appended = writer.append(now, from_ref(command), ());
            appended.map_err(|refused| refused.error)?;
        }
    }
    report("writer and reader, an append an event", start.elapsed());
    Ok(())
}

fn event(number: u32) -> Command {
    Command::Event(EventRecord {
        subject: Id::from(number),
        reach: Reach::Subscribers,
        is_stored: true,
        tag: 0,
        event_type: "".into(),
        payload: Bytes::from(vec![b'x'; PAYLOAD_BYTES]),
    })
}

fn report(what: &str, took: Duration) {
    let events = ENTRIES as f64 * EVENTS as f64;
    let seconds = took.as_secs_f64();
    let (millions, nanos) = (events / seconds / 1e6, seconds / events * 1e9);
    println!("{what}: {millions:.1} million events/s, {nanos:.0} ns an event");
}
