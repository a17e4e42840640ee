//! What the log costs a publisher, and how fast a history is read at the start.
//!
//!     cargo run --release -p eventlog --example measure -- <directory>

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use eventlog::{EventLog, Limits, Run, SyncPolicy};
use graph::{Graph, Id};
use router::{Batch, Event, Mailboxes, Parcel, Payload, Recorder, Router, Tally, WorkerId};

const SUBJECTS: u32 = 100_000;
const PAYLOAD_BYTES: usize = 120;
const HISTORY_BYTES: usize = 64 << 20;
const BATCH: u32 = 100;
const BATCHES: u32 = 10_000;

struct NoWorkers;

impl Mailboxes for NoWorkers {
    fn post(&self, _: WorkerId, _: Parcel) -> Result<(), Parcel> {
        Ok(())
    }

    fn ring(&self, _: WorkerId) {}
}

fn recorder() -> Recorder {
    Recorder::new(history::Limits {
        bytes: HISTORY_BYTES,
        age_seconds: None,
    })
}

fn open(path: &Path, recorder: &mut Recorder, graph: &Graph) -> Result<EventLog, Box<dyn Error>> {
    let run = Run {
        new_epoch: "e".to_owned(),
        boot: "b".to_owned(),
        random: 1,
    };
    let limits = Limits::of_history(HISTORY_BYTES as u64);
    let sync = SyncPolicy::Interval(Duration::from_millis(100));
    let mut restore = |restored: &router::Restored<'_>| recorder.restore(restored, graph);
    let report = |health: &eventlog::Health| println!("{health}");
    let (log, recovery) = EventLog::open(path, limits, sync, run, report, &mut restore)?;
    println!(
        "{} events, {} MiB read",
        recovery.events,
        recovery.bytes >> 20
    );
    Ok(log)
}

/// Publishes, and returns the microseconds of an event while it is posted.
fn publish(router: &Router<NoWorkers>, waits: bool) -> f64 {
    let payload = bytes(PAYLOAD_BYTES);
    let mut batch = Batch::default();
    let mut posting = Duration::ZERO;
    for number in 0..BATCHES {
        let mut planned = router.plan(&mut batch);
        for event in 0..BATCH {
            planned.add(Event {
                subject: Id::from((number * BATCH + event).wrapping_mul(2_654_435_761) % SUBJECTS),
                event_type: None,
                payload: payload.clone(),
            });
        }
        let tally = Tally::new();
        let start = Instant::now();
        planned.post(&tally, |_| ());
        posting += start.elapsed();
        // As publishers do that wait for their receipts.
        while waits && number % 100 == 0 && tally.storing() > 0 {
            std::thread::yield_now();
        }
    }
    posting.as_secs_f64() * 1e6 / f64::from(BATCH * BATCHES)
}

fn bytes(count: usize) -> Payload {
    Payload::text("x".repeat(count).into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("give a directory that does not exist yet")?;
    let path = PathBuf::from(path);
    for round in 0..3 {
        let router = Router::new("e", Arc::new(Graph::memory()), NoWorkers);
        let router = router.with_recorder(recorder());
        println!("in memory: {:.3} us an event", publish(&router, false));

        let graph = Arc::new(Graph::memory());
        let mut recorder = recorder();
        let start = Instant::now();
        let log = open(&path, &mut recorder, &graph)?;
        println!("start {round}: {:.0?}", start.elapsed());
        recorder.set_log(log.shared());
        let router = Router::new("e", graph, NoWorkers).with_recorder(recorder);
        println!("on disk too: {:.3} us an event", publish(&router, true));
        let written = log.shared();
        log.end();
        println!("{:?}", written.metrics());
    }
    Ok(())
}
