//! The task that copies a graph into the object store.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use graph::{Graph, LogPlaces};
use replication::{Checkpoint, EARLIER_MAX, SnapshotManifest};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::catalog::{self, SnapshotName};
use super::error::SnapshotError;
use super::lease::{Lease, LeaseWatch};
use super::objects::Objects;
use super::schedule::is_due;
use crate::engine::Engine;
use crate::incarnations;
use crate::options::{LogOptions, Name, Options};
use crate::stream::{LogState, LogStream};

/// Interval of checks whether a snapshot is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Pause after a failed snapshot.
const FAILURE_PAUSE: Duration = Duration::from_secs(30);

impl Engine {
    /// Starts a task that copies `graph` into the object store of the engine whenever a snapshot is
    /// due. Does nothing for a graph in memory.
    pub fn keep_snapshots(&self, options: &Options, graph: &Arc<Graph>) {
        if graph.stored_place().is_none() {
            return;
        }
        let copier = Copier {
            stream: self.stream.clone(),
            cluster: options.cluster.clone(),
            log: options.log,
            graph: Arc::clone(graph),
            watch: LeaseWatch::default(),
            newest: 0,
        };
        self.runtime.spawn(copier.run());
    }
}

/// State of the task.
struct Copier {
    stream: LogStream,
    cluster: Name,
    log: LogOptions,
    graph: Arc<Graph>,
    watch: LeaseWatch,
    /// Last entry that is applied in the newest known snapshot.
    newest: u64,
}

impl Copier {
    async fn run(mut self) {
        loop {
            sleep(LOOK_INTERVAL).await;
            let Ok(state) = self.stream.state().await else {
                continue;
            };
            if !is_due(&state, self.newest) {
                continue;
            }
            match self.look(&state).await {
                Ok(()) => {}
                Err(SnapshotError::LeaseLost) => {
                    tracing::info!("another node makes the snapshot of the graph");
                }
                Err(error) => {
                    tracing::warn!("no snapshot of the graph was made: {error}");
                    sleep(FAILURE_PAUSE).await;
                }
            }
        }
    }

    /// Makes a snapshot if one is due and no other node is making it.
    async fn look(&mut self, state: &LogState) -> Result<(), SnapshotError> {
        let objects = Objects::open(&self.stream.context, &self.cluster, &self.log).await?;
        let names = catalog::list(&objects, &self.stream.epoch).await?;
        let newest = names.iter().find(|name| name.read <= state.last);
        self.newest = newest.map_or(0, |name| name.read);
        let stored = self.graph.stored_place().unwrap_or_default().sequence;
        // A node does not make one if its stored graph is too far behind, or if the log has lost
        // entries that the node has applied.
        let is_fit = !is_due(state, stored) && state.check_end(stored).is_ok();
        if !is_due(state, self.newest) || !is_fit {
            return Ok(());
        }
        let Some(incarnation) = incarnations::random() else {
            return Err(SnapshotError::copy(&"the system has no random bits now"));
        };
        let Some(lease) = self.watch.take(&objects, incarnation).await? else {
            return Ok(());
        };
        let start = Instant::now();
        let (name, bytes) = self.copy(&objects, lease, incarnation.number()).await?;
        self.newest = name.read;
        tracing::info!(
            "made a snapshot of the graph after entry {} of the log: {bytes} bytes in {:.0?}",
            name.read,
            start.elapsed()
        );
        Ok(())
    }

    /// Makes a snapshot while holding the lease, and removes old ones.
    async fn copy(
        &self,
        objects: &Objects,
        mut lease: Lease<'_>,
        random: u64,
    ) -> Result<(SnapshotName, u64), SnapshotError> {
        let storing = async {
            let (name, manifest) = lease.hold(self.store_graph(objects, random)).await??;
            // Only the holder of the lease may complete a snapshot, as another holder may have
            // removed parts of it.
            lease.renew().await?;
            store_manifest(objects, &name, &manifest).await?;
            Ok((name, manifest.bytes))
        };
        let stored = storing.await;
        let tidied = match &stored {
            Ok((name, _)) => lease.hold(self.remove_old(objects, name)).await,
            Err(_) => Ok(Ok(())),
        };
        if let Err(error) = tidied.and_then(|tidied| tidied) {
            tracing::warn!("old snapshots of the graph were not removed: {error}");
        }
        if let Err(error) = lease.free().await {
            tracing::debug!("{error}");
        }
        stored
    }

    /// Removes old snapshots, when `made` is stored. Nobody makes one meanwhile, as the lease is
    /// held: one that ends behind the log is of entries that it has lost.
    async fn remove_old(
        &self,
        objects: &Objects,
        made: &SnapshotName,
    ) -> Result<(), SnapshotError> {
        let state = self.stream.state().await;
        let state = state.map_err(|error| SnapshotError::engine("the log", &error))?;
        match state.last >= made.read {
            true => catalog::remove_old(objects, &self.stream.epoch, state.last).await,
            // A leader that was just elected, and has not all entries yet.
            false => Ok(()),
        }
    }

    /// Stores a copy of the graph, and returns what it is.
    async fn store_graph(
        &self,
        objects: &Objects,
        random: u64,
    ) -> Result<(SnapshotName, SnapshotManifest), SnapshotError> {
        let graph = Arc::clone(&self.graph);
        let copy = spawn_blocking(move || graph.copy()).await;
        let copy = copy.map_err(|error| SnapshotError::copy(&error))?;
        let copy = copy.map_err(|error| SnapshotError::copy(&error))?;
        let (file, places) = copy
            .and_then(|copy| Some((copy.file, copy.log?)))
            .ok_or_else(|| SnapshotError::copy(&"it has no position in the log yet"))?;
        let name = SnapshotName {
            read: places.last.sequence,
            random,
            epoch: places.epoch.clone(),
        };
        let (checkpoint, earlier) = checkpoints(&places)?;
        let stored = objects.put(&name.graph(), file).await?;
        let manifest = SnapshotManifest {
            epoch: places.epoch,
            checkpoint,
            earlier,
            bytes: stored.bytes,
            checksum: stored.checksum,
        };
        Ok((name, manifest))
    }
}

/// Stores the manifest of a snapshot, which completes the snapshot.
pub(super) async fn store_manifest(
    objects: &Objects,
    name: &SnapshotName,
    manifest: &SnapshotManifest,
) -> Result<(), SnapshotError> {
    let bytes = manifest
        .encode()
        .map_err(|error| SnapshotError::copy(&error))?;
    objects.put(&name.manifest(), Cursor::new(bytes)).await?;
    Ok(())
}

/// Decodes the positions of a copy of a graph.
fn checkpoints(places: &LogPlaces) -> Result<(Checkpoint, Vec<Checkpoint>), SnapshotError> {
    let read = |place: &graph::Checkpoint| {
        let checkpoint = Checkpoint::decode(&Bytes::copy_from_slice(&place.table));
        match checkpoint {
            Ok(checkpoint) if checkpoint.read.number() == place.sequence => Ok(checkpoint),
            Ok(_) => Err(SnapshotError::copy(
                &"one of its positions has the state of another entry",
            )),
            Err(error) => Err(SnapshotError::copy(&error)),
        }
    };
    // The last position may be among the kept ones.
    let earlier = places.earlier.iter();
    let earlier = earlier.filter(|place| place.sequence < places.last.sequence);
    let earlier = earlier
        .take(EARLIER_MAX)
        .map(read)
        .collect::<Result<_, _>>()?;
    Ok((read(&places.last)?, earlier))
}
