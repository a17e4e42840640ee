//! The history of the server, which is read from its directory if it has one.

use std::fs;
use std::time::Instant;

use cli::failure::Failure;
use control::RestoredKey;
use eventlog::{EventLog, Health, Limits, Recovery, Run, Start};
use graph::Graph;
use router::{Accepted, Recorder, Restored};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::config::{Config, HistoryDir};

/// File with the id of the current boot of the machine (Linux, random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The history with which a server starts.
pub(super) struct History {
    /// Epoch of the events.
    pub(super) epoch: String,
    /// The history; `None` if it is disabled.
    pub(super) recorder: Option<Recorder>,
    /// The copy on disk.
    pub(super) log: Option<EventLog>,
    /// Idempotency keys of its events.
    pub(super) keys: Vec<RestoredKey>,
}

impl History {
    /// Reads the history from its directory. Without a directory it is empty and has a new epoch.
    pub(super) fn open(config: &Config, graph: &Graph, new_epoch: String) -> Result<Self, Failure> {
        let mut recorder = config.settings.history.map(Recorder::new);
        let (Some(directory), Some(limits)) = (&config.history_dir, config.settings.history) else {
            return Ok(Self {
                epoch: new_epoch,
                recorder,
                log: None,
                keys: Vec::new(),
            });
        };
        let HistoryDir { path, sync } = directory;
        let run = Run {
            new_epoch,
            boot: fs::read_to_string(BOOT_ID).unwrap_or_default(),
            random: random(),
        };
        let start = Instant::now();
        let mut keys = Vec::new();
        let (log, recovery) = EventLog::open(
            path,
            Limits::of_history(limits.bytes as u64),
            *sync,
            run,
            report,
            &mut |restored| {
                if let &Restored::Note(note) = restored {
                    keys.push(RestoredKey {
                        accepted: Accepted {
                            position: note.position,
                            audience: note.audience,
                        },
                        note: note.bytes.into(),
                    });
                }
                if let Some(recorder) = &mut recorder {
                    recorder.restore(restored, graph);
                }
            },
        )
        .map_err(Failure::failed)?;
        if let Some(recorder) = &mut recorder {
            recorder.set_log(log.shared());
        }
        if recovery.start != Start::New {
            let (Recovery { events, bytes, .. }, path) = (&recovery, path.display());
            let (mebibytes, took) = (bytes >> 20, start.elapsed());
            tracing::info!(
                "read {events} events, {mebibytes} MiB of history, from {path} in {took:.0?}"
            );
        }
        for warning in recovery.warnings() {
            tracing::warn!("{warning}");
        }
        Ok(Self {
            epoch: recovery.epoch,
            recorder,
            keys,
            log: Some(log),
        })
    }
}

fn report(health: &Health) {
    match health {
        Health::Failed(_) => tracing::error!("{health}"),
        Health::Recovered => tracing::warn!("{health}"),
    }
}

/// Returns a random seed for checksums, so that those of one segment are invalid in others. Returns
/// 0 if the system has no randomness.
fn random() -> u64 {
    let mut random = [0; size_of::<u64>()];
    match getrandom(&mut random, GetRandomFlags::empty()) {
        Ok(filled) if filled == random.len() => u64::from_ne_bytes(random),
        _ => 0,
    }
}
