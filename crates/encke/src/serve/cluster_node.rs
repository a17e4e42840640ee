//! The server as a node of a cluster: joins, applies the log, and decides when clients are served.

use std::sync::Arc;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use ::cluster::apply::{Applier, StartError, begin_from};
use ::cluster::{Cluster, Engine, Host, JoinError, Options, Stop, StopKind};
use cli::epoch;
use cli::failure::Failure;
use control::{Replicated, SharedState};
use graph::Graph;
use replication::shared::SharedSink;
use replication::{Append, NodeCounters};
use sd_notify::NotifyState;
use server::{Handle, Metric};

use super::announce::tell_manager;
use super::ticker::Ticker;
use crate::config::Config;

/// Time for which a start waits for the engine, which may be starting at the same time.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause between two attempts to join.
const JOIN_PAUSE: Duration = Duration::from_millis(500);

/// Interval at which the node decides whether clients are served.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// Gauges of sessions, by transport.
const SESSIONS: [Metric; 5] = [
    Metric::SessionsSse,
    Metric::SessionsNdjson,
    Metric::SessionsTest,
    Metric::SessionsWebSocket,
    Metric::SessionsPoll,
];

/// A server's part in its cluster. Ends when [`end`](Self::end) is called.
pub(super) struct Node {
    cluster: Arc<Cluster>,
    shared: Arc<SharedState>,
    watch: Ticker,
    /// Whether its graph outlives this run.
    has_directory: bool,
}

/// This server, as the cluster sees it.
struct ServerOfNode {
    server: Handle,
    started: Instant,
}

impl Host for ServerOfNode {
    fn counters(&self) -> NodeCounters {
        let stats = self.server.stats();
        NodeCounters {
            uptime: self.started.elapsed(),
            workers: stats.metrics.workers.len() as u64,
            busy: Duration::from_nanos(stats.total(Metric::Busy)),
            connections: stats.total(Metric::Connections),
            sessions: SESSIONS.map(|metric| stats.total(metric)).iter().sum(),
            written: stats.total(Metric::Deliveries),
            bytes_written: stats.total(Metric::BytesWritten),
            backlog_bytes: stats.total(Metric::BacklogBytes),
            ..NodeCounters::default()
        }
    }

    fn is_draining(&self) -> bool {
        self.server.is_draining()
    }

    fn drain(&self) {
        if self.is_draining() {
            return;
        }
        let drain_timeout = self.server.live_settings().drain_timeout;
        tracing::info!(
            "an operator drains this node: shutting down within {drain_timeout:?}; clients are \
             told to reconnect"
        );
        tell_manager(&[NotifyState::Stopping]);
        self.server.drain();
    }
}

/// Joins the cluster. Waits for the engine if it is not there yet.
///
/// # Errors
///
/// When the node cannot join. The error says what to do.
pub(super) fn join(options: &Options) -> Result<Engine, Failure> {
    let start = Instant::now();
    let mut warned = false;
    loop {
        let error = match Engine::join(options, &epoch::of_this_run()) {
            Ok(engine) => return Ok(engine),
            Err(error) => error,
        };
        if !may_pass(&error) || start.elapsed() >= JOIN_TIMEOUT {
            return Err(Failure::failed(error));
        }
        if !warned {
            tracing::warn!("{error}; trying again for {JOIN_TIMEOUT:?}");
            warned = true;
        }
        park_timeout(JOIN_PAUSE);
    }
}

/// Returns whether a reason may be temporary: servers start, or elect a leader.
const fn may_pass(error: &JoinError) -> bool {
    matches!(
        error,
        JoinError::Unreachable { .. }
            | JoinError::NoJetStream(_)
            | JoinError::Create { .. }
            | JoinError::Request(_)
    )
}

/// Opens the graph of a node, from its directory if it has one. A new node, one without a
/// directory, and one that was away for longer than the log reaches back, starts from a snapshot.
///
/// # Errors
///
/// When the graph cannot be opened, or is that of another log.
pub(super) fn open_graph(
    config: &Config,
    engine: &mut Engine,
    options: &Options,
) -> Result<Graph, Failure> {
    let graph = match &config.data {
        Some(path) => engine.open_graph(path, options),
        None => engine.graph_in_memory(options),
    };
    let graph = graph.map_err(Failure::failed)?;
    let applied = graph.log_start().map_or(0, |places| places.last.sequence);
    engine.wait_for_end(applied).map_err(Failure::failed)?;
    Ok(graph)
}

impl Node {
    /// Begins to apply the log. Clients are refused until what is in the log now is applied.
    ///
    /// # Errors
    ///
    /// When the log does not have what the node must read next.
    pub(super) fn start(
        engine: Engine,
        options: &Options,
        config: &Config,
        server: &Handle,
    ) -> Result<Self, Failure> {
        server.pause();
        let router = server.router_shared();
        let places = router.graph().log_start().cloned().unwrap_or_default();
        let state = engine.state().clone();
        let from = begin_from(&places, state.first).map_err(|error| match error {
            // The log was trimmed meanwhile. The next start finds a newer snapshot.
            StartError::Trimmed { .. } => Failure::Restart(error.to_string()),
            error => Failure::failed(error),
        })?;
        let name = &options.cluster;
        let (first, last) = (state.first, state.last);
        let behind = last.saturating_sub(places.last.sequence);
        tracing::info!(
            "the log of the cluster {name} ends at entry {last}; this node is {behind} entries \
             behind, and reads from entry {} on",
            from.read.next().number().max(first)
        );
        engine.keep_snapshots(options, router.graph());
        let rows = router.graph().take_rows();
        let shared = SharedState::new(server.clone(), &rows).map_err(|error| {
            Failure::failed(format!(
                "the shared state that is stored with the graph cannot be read: {error}; remove \
                 the data directory, so that this node starts from a snapshot"
            ))
        })?;
        let sink: Arc<dyn SharedSink> = Arc::<SharedState>::clone(&shared);
        let history_bytes = config.settings.history.map_or(0, |limits| limits.bytes);
        let applier = Applier::new(router, Some(sink), from, history_bytes, state.bytes_max);
        let applier = applier.map_err(Failure::failed)?;
        let host = Arc::new(ServerOfNode {
            server: server.clone(),
            started: Instant::now(),
        });
        let version = env!("CARGO_PKG_VERSION");
        let cluster = Cluster::start(engine, options, version, applier, host);
        let cluster = cluster.map_err(Failure::failed)?;
        let watched = (Arc::clone(&cluster), server.clone(), options.patience);
        let mut serves = false;
        let watch = move || {
            let (cluster, server, patience) = &watched;
            if ends_by_itself(cluster) && !server.is_draining() {
                tracing::error!("ending: clients are told to reconnect");
                server.drain();
            }
            if let Some(error) = cluster.namesake().filter(|_| !server.is_draining()) {
                tracing::error!("ending: {error}");
                server.drain();
            }
            server.set_ready(cluster.status().not_ready.is_none());
            let should = should_serve(cluster, *patience);
            if should != serves {
                serve_clients(server, should);
                serves = should;
            }
        };
        let watch = Ticker::start("encke-watch", WATCH_INTERVAL, watch, || ());
        let watch = watch.map_err(|error| {
            cluster.end();
            Failure::failed(error)
        })?;
        Ok(Self {
            cluster,
            shared,
            watch,
            has_directory: config.data.is_some(),
        })
    }

    /// Returns the log, to which events and changes are appended.
    pub(super) fn log(&self) -> Arc<dyn Append> {
        Arc::<Cluster>::clone(&self.cluster)
    }

    /// Returns the log with the shared state.
    pub(super) fn replicated(&self) -> Replicated {
        Replicated {
            log: self.log(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Waits until what was in the log at the start is applied and clients are served, or the
    /// server is shut down.
    ///
    /// # Errors
    ///
    /// When the log cannot be applied.
    pub(super) fn wait_until_caught_up(&self, server: &Handle) -> Result<(), Failure> {
        let start = Instant::now();
        while server.is_paused() && !server.is_draining() {
            if let Some(stop) = self.cluster.stopped() {
                let failure = self.failure();
                return Err(failure.unwrap_or_else(|| Failure::failed(&stop.reason)));
            }
            park_timeout(WATCH_INTERVAL);
        }
        let took = start.elapsed();
        tracing::info!("this node has applied what was in the log, in {took:.0?}");
        Ok(())
    }

    /// Returns why this node had to stop by itself: another node has its name, or the log has lost
    /// entries that it had not applied, or the log is not the one that it has applied. The error is
    /// [`Failure::Restart`] if a new start helps.
    fn failure(&self) -> Option<Failure> {
        if let Some(error) = self.cluster.namesake() {
            return Some(Failure::failed(error));
        }
        let Stop { reason, kind } = self.cluster.stopped()?;
        let goes_on = match kind {
            StopKind::Entry => return None,
            StopKind::Trimmed => true,
            // A node without a directory starts from a snapshot.
            StopKind::OtherLog => !self.has_directory,
        };
        Some(match goes_on {
            true => Failure::Restart(reason.clone()),
            false => Failure::failed(reason),
        })
    }

    /// Leaves the cluster. Returns why the node had to stop, if it stopped by itself.
    pub(super) fn end(self) -> Option<Failure> {
        let failure = self.failure();
        drop(self.watch);
        self.cluster.end();
        failure
    }
}

/// Returns whether this node keeps up with the log, so that clients can be served.
fn should_serve(cluster: &Cluster, patience: Duration) -> bool {
    cluster.has_caught_up() && cluster.stopped().is_none() && cluster.cut_off() <= patience
}

/// Returns whether the node must stop because it cannot continue, and an update would not help.
fn ends_by_itself(cluster: &Cluster) -> bool {
    cluster
        .stopped()
        .is_some_and(|stop| stop.kind != StopKind::Entry)
}

fn serve_clients(server: &Handle, should: bool) {
    if should {
        tracing::info!("clients are served");
        server.resume();
    } else {
        tracing::warn!("clients are told to go to another node");
        server.pause();
    }
}
