//! The log in a directory of the system, with its thread.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Wake};
use std::thread::{self, Thread};
use std::time::Duration;

use graph::{Graph, Id};
use history::Reach;
use router::{Event, Mailboxes, Parcel, Payload, Recorder, Restored, Router, Tally, WorkerId};

use super::world::LIMITS;
use crate::disk::{Directory, Disk, DiskFile};
use crate::error::OpenError;
use crate::log::EventLog;
use crate::recovery::{Recovery, Start};
use crate::settings::{Limits, Run, SyncPolicy};

fn open(path: &Path) -> Result<(EventLog, Recovery), OpenError> {
    open_with(path, &mut |_| ())
}

fn open_with(
    path: &Path,
    restore: &mut dyn FnMut(&Restored<'_>),
) -> Result<(EventLog, Recovery), OpenError> {
    let run = Run {
        new_epoch: "e".to_owned(),
        boot: "b".to_owned(),
        random: 1,
    };
    let sync = SyncPolicy::Interval(Duration::from_millis(100));
    let usual = Limits::of_history(1 << 20);
    let limits = Limits {
        segment_bytes: usual.segment_bytes,
        disk_bytes: usual.disk_bytes,
        ..LIMITS
    };
    EventLog::open(path, limits, sync, run, |_| (), restore)
}

#[test]
fn the_directory_and_its_files_are_private_and_one_process_has_it() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("deep/history");
    let (log, recovery) = open(&path).unwrap();
    assert_eq!(recovery.start, Start::New);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o700);
    let names: Vec<_> = fs::read_dir(&path)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    names.iter().for_each(|name| assert_eq!(mode(name), 0o600));
    let refused = open(&path).expect_err("a refusal").to_string();
    assert!(refused.contains("in use by another process"), "{refused}");
    log.end();
    // Made private again if others could read it.
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let (_log, recovery) = open(&path).unwrap();
    assert_eq!((mode(&path), recovery.start), (0o700, Start::Clean));
}

#[test]
fn symbolic_links_are_not_followed() {
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("target");
    fs::write(&target, "precious").unwrap();
    for name in ["lock", "state", "segment-00000000000000000001"] {
        let path = parent.path().join(format!("with-{name}"));
        drop(open(&path).unwrap());
        fs::remove_file(path.join(name)).unwrap();
        symlink(&target, path.join(name)).unwrap();
        let refused = open(&path).expect_err("a refusal").to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
}

/// The kernel refuses to sync what keeps nothing: a sync that does not reach it succeeds.
#[test]
fn syncs_of_a_file_and_of_a_directory_are_those_of_the_kernel() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Directory(directory.path().to_owned());
    let file = disk.create("file").unwrap();
    DiskFile::write(&file, 0, b"x").unwrap();
    DiskFile::sync(&file).unwrap();
    disk.sync().unwrap();
    let device = File::open("/dev/null").unwrap();
    assert!(DiskFile::sync(&device).is_err());
    assert!(Directory("/proc/self".into()).sync().is_err());
}

struct NoWorkers;

impl Mailboxes for NoWorkers {
    fn post(&self, _: WorkerId, _: Parcel) -> Result<(), Parcel> {
        Ok(())
    }

    fn ring(&self, _: WorkerId) {}
}

/// Wakes a thread that waits for a receipt.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait_for(tally: &Arc<Tally>) {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut stored = Box::pin(tally.stored());
    while stored
        .as_mut()
        .poll(&mut Context::from_waker(&waker))
        .is_pending()
    {
        thread::park();
    }
}

#[test]
fn the_thread_stores_what_is_published_and_the_next_run_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history");
    for round in 0..3 {
        let graph = Arc::new(Graph::memory());
        let mut recorder = Recorder::new(history::Limits {
            bytes: 1 << 20,
            age_seconds: None,
        });
        let mut restore = |restored: &Restored<'_>| recorder.restore(restored, &graph);
        let (log, recovery) = open_with(&path, &mut restore).unwrap();
        assert_eq!(recovery.events, round * 500);
        recorder.set_log(log.shared());
        let router = Router::new("e", graph, NoWorkers);
        let router = router.with_recorder(recorder);
        for number in 0..500 {
            let tally = Tally::new();
            let event = Event {
                subject: Id::from(number),
                event_type: None,
                payload: Payload::text("hello".into()),
            };
            router.publish(event, &tally);
            wait_for(&tally);
            assert!(tally.unstored() == 0);
        }
        let written = log.shared();
        log.end();
        assert_eq!(written.metrics().events, 500);
    }
}

#[test]
fn notes_come_back_behind_their_events_with_positions_and_audiences() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history");
    let event = |subject: u32| Event {
        subject: Id::from(subject),
        event_type: None,
        payload: Payload::text("hello".into()),
    };
    let mut expected: Vec<(u64, Vec<u8>)> = Vec::new();
    // The last round reads what the one before has written.
    for round in 0..3_u8 {
        let graph = Arc::new(Graph::memory());
        let mut recorder = Recorder::new(history::Limits {
            bytes: 1 << 20,
            age_seconds: None,
        });
        let mut found = Vec::new();
        let mut events = 0;
        let (log, recovery) = open_with(&path, &mut |restored| {
            match restored {
                Restored::Note(note) => {
                    assert_eq!(note.audience.subscribers, 1);
                    found.push((note.position, note.bytes.to_vec()));
                }
                Restored::Event(_) => events += 1,
                _ => {}
            }
            recorder.restore(restored, &graph);
        })
        .unwrap();
        assert_eq!((found, recovery.cut), (expected.clone(), 0));
        assert_eq!(events, 2 * usize::from(round));
        recorder.set_log(log.shared());
        let router = Router::new("e", graph, NoWorkers).with_recorder(recorder);
        for (is_stored, note) in [(true, vec![round; 300]), (true, vec![]), (false, vec![7])] {
            let (tally, reach) = (Tally::new(), Reach::Subscribers);
            let accepted = router.deliver_noted(event(1), reach, is_stored, &note, &tally);
            wait_for(&tally);
            if !note.is_empty() {
                expected.push((accepted.position, note));
            }
        }
        log.end();
    }
}
