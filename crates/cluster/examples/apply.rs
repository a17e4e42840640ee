//! Measures the events per second that one core applies when no client is online: reading, planning
//! and storing in the history.
//!
//! `cargo run --release -p cluster --example apply -- [events] [events of an entry]`

use std::sync::Arc;
use std::time::Instant;

use cluster::apply::Applier;
use cluster::{Apply as _, EntryRead};
use graph::{Graph, Id};
use history::{Limits, Reach};
use replication::{
    Checkpoint, Command, Entry, EventRecord, Incarnation, Outcome, Reader, StreamSequence,
};
use router::{Mailboxes, Parcel, Router, WorkerId};

/// Size of the history, in bytes: the default of a server.
const HISTORY_BYTES: usize = 64 << 20;

/// Size of a payload, in bytes.
const PAYLOAD_BYTES: usize = 100;

struct NoWorkers;

impl Mailboxes for NoWorkers {
    fn post(&self, _: WorkerId, _: Parcel) -> Result<(), Parcel> {
        Ok(())
    }

    fn ring(&self, _: WorkerId) {}
}

fn entry(number: u64, commands: Vec<Command>) -> Entry {
    Entry {
        incarnation: Incarnation::new(7).expect("not 0"),
        number,
        commands,
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse());
    let mut argument = |default| arguments.next().map_or(Ok(default), |number| number);
    let events: u64 = argument(2_000_000).expect("a number of events");
    let per_entry: u64 = argument(500).expect("a number of events per entry");
    let payload = bytes::Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
    let up = Command::NodeUp {
        name: "n".into(),
        version: "1".into(),
        after: StreamSequence::ZERO,
    };
    let event = |number: u64| {
        Command::Event(EventRecord {
            subject: Id::integer(number.wrapping_mul(7919) % 1_000_000).expect("small"),
            reach: Reach::Subscribers,
            is_stored: true,
            tag: 1,
            event_type: "".into(),
            payload: payload.clone(),
        })
    };
    let first = entry(1, vec![up]).encode().expect("within bounds");
    let others = (0..events / per_entry).map(|number| {
        let commands = (0..per_entry).map(|index| event(number * per_entry + index));
        let entry = entry(number + 2, commands.collect());
        entry.encode().expect("within bounds")
    });
    let messages: Vec<_> = std::iter::once(first).chain(others).collect();

    let limits = Limits {
        bytes: HISTORY_BYTES,
        age_seconds: None,
    };
    let graph = Arc::new(Graph::memory_in_log("e"));
    let router = Arc::new(Router::new("e", graph, NoWorkers).with_history(limits));
    let applier = Applier::new(router, None, Checkpoint::default(), HISTORY_BYTES, 0);
    let mut applier = applier.expect("a new graph");
    let mut reader = Reader::default();
    let begin = Instant::now();
    for message in &messages {
        let read = reader.read(reader.next(), message).expect("in order");
        let now = EntryRead {
            after: reader.checkpoint(),
            seconds: 1,
            is_own: false,
            ended: &[],
        };
        if let Outcome::Counts(entry) = read.outcome {
            let applied = applier.apply(&entry, now);
            applied.expect("in order");
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let applied = (messages.len() as u64 - 1) * per_entry;
    println!(
        "{:.0} events/s, {per_entry} per entry",
        applied as f64 / seconds
    );
}
