//! A server on a simulated disk, from its start to its crash.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use control::SimControl;
use erlang::sim::SimNode;
use eventlog::sim::SimLogWorker;
use eventlog::{Run, Start, SyncPolicy};
use graph::Graph;
use graph::sim::SimWriter;
use history::Limits;
use router::{Recorder, Restored};
use server::sim::SimServer;
use server::{LiveSettings, PresenceSettings, SlowPolicy};
use simulated::disk::Disk;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use super::connection::Connection;

pub(super) const WORKERS: usize = 3;

/// Seconds after which an event leaves the history.
pub(super) const AGE_SECONDS: u32 = 10;

/// How long a request may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(1000);

/// Time that an id stays online after its last session.
pub(super) const PRESENCE_DELAY: Duration = Duration::from_secs(1);

const PRESENCE: PresenceSettings = PresenceSettings {
    delay: PRESENCE_DELAY,
    rate: 1_000_000,
    subscribers_max: 1000,
    in_cluster: false,
};

/// Bounds of the history on disk.
const LOG: eventlog::Limits = eventlog::Limits {
    segment_bytes: 2048,
    disk_bytes: 1 << 20,
    ..eventlog::Limits::of_history(0)
};

/// Edges of the journal that are folded into the blocks.
const PENDING_MIN: usize = 6;

/// How often tasks of the control API may wake each other in a turn.
const YIELDS: usize = 16;

/// What stays when a process crashes.
pub(super) struct Storage {
    /// Disk of the graph.
    pub(super) disk: Disk,
    /// Directory of the history, if there is one, and when it is synced.
    pub(super) log: Option<(Disk, SyncPolicy)>,
    /// Boots of the machine so far.
    pub(super) boots: u32,
}

/// Dropped as a process that is killed: nothing is written any more to a disk that is found again.
pub(super) struct Process {
    // First: its tasks have the others.
    runtime: Runtime,
    control: SimControl,
    pub(super) server: SimServer,
    /// Its node in an Erlang cluster.
    pub(super) node: SimNode,
    pub(super) graph: Arc<Graph>,
    writer: SimWriter,
    log: Option<SimLogWorker>,
    /// Whether events with a receipt may have been lost before it started.
    pub(super) is_lossy: bool,
    /// Milliseconds of the log.
    millis: Arc<AtomicU64>,
}

/// The disk of a graph that nobody has changed.
pub(super) fn new_disk() -> Disk {
    static EMPTY: OnceLock<Disk> = OnceLock::new();
    let left = EMPTY.get_or_init(|| {
        let disk = Disk::from(Vec::new());
        let (graph, mut writer) = graph::sim::open(&disk, PENDING_MIN).expect("a new graph");
        graph.end();
        while writer.step() {}
        drop(writer);
        disk.after_power_loss(None)
    });
    left.after_power_loss(None)
}

/// Opens the graph of a disk.
pub(super) fn open(disk: &Disk) -> (Graph, SimWriter) {
    graph::sim::open(disk, PENDING_MIN).expect("a whole graph is on the disk")
}

impl Process {
    /// Starts a server on what is stored. Without a directory for its history, or with an empty
    /// one, its events have this epoch.
    pub(super) fn start(storage: &Storage, epoch: &str) -> Self {
        let (graph, writer) = open(&storage.disk);
        let graph = Arc::new(graph);
        let live = LiveSettings {
            backlog_bytes: 4000,
            slow: SlowPolicy::CatchUp,
            head_timeout: HEAD_TIMEOUT,
            ..LiveSettings::default()
        };
        let mut recorder = Recorder::new(Limits {
            bytes: 1 << 20,
            age_seconds: Some(AGE_SECONDS),
        });
        let millis = Arc::new(AtomicU64::new(0));
        let opened = storage.log.as_ref().map(|(directory, sync)| {
            let run = Run {
                new_epoch: epoch.to_owned(),
                boot: format!("boot-{}", storage.boots),
                random: u64::from(storage.boots),
            };
            let mut restore = |restored: &Restored<'_>| recorder.restore(restored, &graph);
            let opened = eventlog::sim::open(directory, LOG, *sync, run, &millis, &mut restore);
            opened.expect("the history can be read")
        });
        let mut epoch = epoch.to_owned();
        let (mut log, mut is_lossy) = (None, false);
        if let Some((face, worker, recovery)) = opened {
            recorder.set_log(face);
            is_lossy = recovery.start == Start::Lossy;
            epoch = recovery.epoch;
            log = Some(worker);
        }
        let shared = Arc::clone(&graph);
        let server = SimServer::new(
            shared,
            &epoch,
            WORKERS as u16,
            live,
            recorder,
            Some(PRESENCE),
            1,
        );
        let node = SimNode::new(&server);
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let control = {
            let _inside = runtime.enter();
            SimControl::new(server.handle().clone(), 1 << 20, HEAD_TIMEOUT)
        };
        Self {
            runtime,
            control: control.expect("the rows are whole"),
            server,
            node,
            graph,
            writer,
            log,
            is_lossy,
            millis,
        }
    }

    /// Epoch of its events.
    pub(super) fn epoch(&self) -> &str {
        self.server.handle().router().epoch()
    }

    /// A publisher connects to the control API.
    pub(super) fn connect(&self) -> Connection {
        let connection = Connection::default();
        let _inside = self.runtime.enter();
        let served = self.control.connection(connection.socket());
        self.runtime.spawn(served);
        connection
    }

    /// Lets the control API do what it can do now.
    pub(super) fn turn_control(&self) {
        self.runtime.block_on(async {
            for _ in 0..YIELDS {
                yield_now().await;
            }
        });
    }

    /// Lets the graph's writer make a commit, if there is something to write.
    pub(super) fn commit(&mut self) -> bool {
        self.writer.step()
    }

    /// Lets the log of the history write what waits, if there is one.
    pub(super) fn write_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.step();
        }
    }

    /// Takes no more events into the log.
    pub(super) fn end_log(&mut self) {
        if let Some(log) = &self.log {
            log.end();
        }
        self.write_log();
    }

    /// Time passes, and nobody takes a turn.
    pub(super) fn pass(&mut self, time: Duration) {
        self.millis
            .fetch_add(time.as_millis() as u64, Ordering::Relaxed);
        self.server.pass(time);
        self.node.pass(time);
        self.runtime.block_on(tokio::time::advance(time));
    }

    /// Returns the numbers of connections of the control API and of events without a receipt.
    pub(super) fn control_under_way(&self) -> (u64, u64) {
        self.control.under_way()
    }
}
