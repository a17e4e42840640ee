//! A router with a log on a disk in memory, and a model of what clients are owed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use graph::{Graph, Id};
use history::{Cursor, Followed, Gap, History, Limits as HistoryLimits};
use router::{
    Batch, Event, Log, LogMetrics, Mailboxes, Parcel, Payload, Recorder, Router, Tally, WorkerId,
};
use simulated::Dice;
use simulated::disk::Disk;

use crate::error::OpenError;
use crate::recovery::{Recovery, Start};
use crate::settings::{Limits, Run, SyncPolicy};
use crate::sim::{self, SimLogWorker};

pub(super) const SUBJECTS: u64 = 7;

/// Bytes of the history in memory.
const HISTORY: HistoryLimits = HistoryLimits {
    bytes: 1 << 18,
    age_seconds: None,
};

pub(super) const LIMITS: Limits = Limits {
    segment_bytes: 2048,
    disk_bytes: 1 << 20,
    segments: 64,
    waiting_bytes: 4096,
    reserved_positions: 64,
};

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// `kill -9`.
    Kill,
    /// A loss of power, and the seed of what was torn.
    PowerLoss(u64),
}

struct NoWorkers;

impl Mailboxes for NoWorkers {
    fn post(&self, _: WorkerId, _: Parcel) -> Result<(), Parcel> {
        Ok(())
    }

    fn ring(&self, _: WorkerId) {}
}

/// Event of the model.
pub(super) struct Published {
    subject: String,
    payload: String,
    tally: Arc<Tally>,
    is_stored: bool,
    /// When it was published, in milliseconds.
    at: u64,
}

/// What was published by all runs, by position.
pub(super) type Model = BTreeMap<u64, Published>;

pub(super) struct World {
    pub(super) disk: Disk,
    pub(super) sync: SyncPolicy,
    pub(super) time: Arc<AtomicU64>,
    pub(super) model: Model,
    pub(super) recovery: Recovery,
    router: Router<NoWorkers>,
    log: Arc<dyn Log>,
    pub(super) worker: SimLogWorker,
    boot: String,
}

impl World {
    pub(super) fn new(sync: SyncPolicy) -> Self {
        Self::open(Disk::default(), sync, "boot-0", Model::new()).expect("a new disk")
    }

    pub(super) fn open(
        disk: Disk,
        sync: SyncPolicy,
        boot: &str,
        model: Model,
    ) -> Result<Self, OpenError> {
        let graph = Arc::new(Graph::memory());
        let mut recorder = Recorder::new(HISTORY);
        let run = Run {
            new_epoch: "e".to_owned(),
            boot: boot.to_owned(),
            random: 7 + model.len() as u64,
        };
        let time = Arc::new(AtomicU64::new(0));
        let opened = sim::open(&disk, LIMITS, sync, run, &time, &mut |restored| {
            recorder.restore(restored, &graph);
        })?;
        let (log, worker, recovery) = opened;
        recorder.set_log(Arc::clone(&log));
        let router = Router::new("e", graph, NoWorkers).with_recorder(recorder);
        let world = Self {
            disk,
            sync,
            time,
            model,
            recovery,
            router,
            log,
            worker,
            boot: boot.to_owned(),
        };
        world.check();
        Ok(world)
    }

    /// Publishes some events in one batch.
    pub(super) fn publish(&mut self, dice: &mut Dice) {
        let mut batch = Batch::default();
        let mut events = Vec::new();
        let tally = Tally::new();
        let mut planned = self.router.plan(&mut batch);
        for _ in 0..=dice.roll(3) {
            let subject = match dice.within(0..SUBJECTS) {
                number if number.is_multiple_of(2) => number.to_string(),
                number => format!("subject-{number}"),
            };
            let payload = format!("{}:{}", dice.bits(), "x".repeat(dice.roll(200)));
            let event = Event {
                subject: Id::parse(&subject).expect("an id"),
                event_type: None,
                payload: Payload::text(payload.clone().into()),
            };
            let is_stored = !dice.once_in(5);
            match is_stored {
                true => planned.add(event),
                false => planned.add_unstored(event),
            };
            events.push((subject, payload, is_stored));
        }
        let count = events.len() as u64;
        let last = planned.post(&tally, |_| ());
        for (position, (subject, payload, is_stored)) in (last + 1 - count..).zip(events) {
            let tally = Arc::clone(&tally);
            let published = Published {
                subject,
                payload,
                tally,
                is_stored,
                at: self.time.load(Ordering::Relaxed),
            };
            let before = self.model.insert(position, published);
            assert!(before.is_none(), "{position} was given out twice");
        }
    }

    /// Lets the log's thread do its work, after some time.
    pub(super) fn step(&mut self, millis: u64) {
        self.time.fetch_add(millis, Ordering::Relaxed);
        self.worker.step();
    }

    pub(super) fn end(&mut self) {
        self.worker.end();
        self.step(0);
    }

    pub(super) fn stats(&self) -> LogMetrics {
        self.log.metrics()
    }

    /// Ends the run, and starts the next one on what is left of the disk.
    pub(super) fn restart(self, end: End) -> Result<Self, OpenError> {
        let (disk, boot) = match end {
            End::Kill => (self.disk.after_kill(), self.boot.clone()),
            End::PowerLoss(seed) => (self.disk.after_power_loss(seed), format!("{}+", self.boot)),
        };
        Self::open(disk, self.sync, &boot, self.settled_model())
    }

    /// The model, without the receipts that came after the server's death.
    pub(super) fn settled_model(self) -> Model {
        let is_dead = self.disk.is_killed();
        let mut model = self.model;
        for event in model.values_mut() {
            if event.tally.storing() > 0 || is_dead && event.tally.unstored() > 0 {
                // No receipt was given: a tally that never ends says so.
                event.tally = unanswered();
            }
        }
        model
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&History) -> T) -> T {
        self.router.recorder().expect("it has one").read(read)
    }

    pub(super) fn gap(&self, position: u64) -> Option<Gap> {
        self.read(|history| history.gap("e", Cursor::complete("e", position)))
    }

    /// What the history holds, by position.
    pub(super) fn found(&self) -> BTreeMap<u64, (String, String)> {
        let graph = self.router.graph();
        let names =
            (0..SUBJECTS).flat_map(|number| [number.to_string(), format!("subject-{number}")]);
        let keys = names.filter_map(|name| {
            let key = graph.find(&Id::parse(&name).expect("an id"))?;
            Some((key, name))
        });
        let mut found = BTreeMap::new();
        for (key, name) in keys {
            self.read(|history| {
                let mut missed = Vec::new();
                let followed = Followed {
                    key,
                    after: 0,
                    is_own: true,
                };
                history.missed([followed], u64::MAX, usize::MAX, &mut missed);
                for missed in missed {
                    let stored = history.get(missed.place).expect("it was found");
                    let payload = String::from_utf8_lossy(stored.entry.payload).into_owned();
                    found.insert(missed.position, (name.clone(), payload));
                }
            });
        }
        found
    }

    /// Checks what the history says against the model.
    pub(super) fn check(&self) {
        let found = self.found();
        for (position, (subject, payload)) in &found {
            let published = &self.model[position];
            assert_eq!((subject, payload), (&published.subject, &published.payload));
            assert!(published.is_stored);
        }
        let head = self.read(History::head);
        let last = self.model.keys().last().copied().unwrap_or(0);
        assert!(head >= last, "{last} would be given out again after {head}");
        for (&position, published) in &self.model {
            let is_found = found.contains_key(&position);
            if published.is_answered() && published.is_stored && !is_found {
                for cursor in 0..position {
                    assert!(
                        self.gap(cursor).is_some(),
                        "{position} is missing, and a client at {cursor} does not learn it"
                    );
                }
            }
            if !published.is_answered() && !is_found && published.is_stored {
                assert!(
                    self.gap(position).is_some(),
                    "{position} was delivered and is gone, and who has seen it does not learn it"
                );
            }
        }
    }

    /// Checks that a client of this run, which has lost nothing, is told so.
    pub(super) fn check_memory(&self) {
        self.check();
        for &position in self.model.keys() {
            assert_eq!(self.gap(position), None, "{position}");
        }
    }

    /// Checks that clients lose nothing by a restart which the disk survived.
    pub(super) fn check_nothing_lost(&self) {
        assert_ne!(self.recovery.start, Start::Lossy);
        let found = self.found();
        let Some(&first) = found.keys().next() else {
            return;
        };
        let answered = self.model.iter().filter(|(_, event)| event.is_answered());
        for (&position, event) in answered {
            if position >= first && event.is_stored {
                assert!(found.contains_key(&position), "{position} is missing");
                assert_eq!(self.gap(position), None, "{position}");
            }
        }
    }
}

impl Published {
    /// Forgets the receipt if it was given at this time or later.
    pub(super) fn doubt_since(&mut self, at: u64) {
        if self.at >= at {
            self.tally = unanswered();
        }
    }

    /// Whether its publisher has a receipt.
    fn is_answered(&self) -> bool {
        self.tally.storing() == 0
    }
}

/// A tally that waits for ever.
fn unanswered() -> Arc<Tally> {
    let tally = Tally::new();
    let mut recorder = Recorder::new(HISTORY);
    recorder.set_log(sim::log_that_nobody_writes(&LIMITS));
    let graph = Arc::new(Graph::memory());
    let router = Router::new("e", graph, NoWorkers).with_recorder(recorder);
    let event = Event {
        subject: Id::from(0),
        event_type: None,
        payload: Payload::text("".into()),
    };
    router.publish(event, &tally);
    tally
}
