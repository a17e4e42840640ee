//! The import: the first snapshot of a cluster, from the graph of a single server.
//!
//! Owns which log may begin with a graph: one without entries. The log is marked before anything is
//! stored, and nodes do not join a marked log without a snapshot. So an interrupted import cannot
//! be mistaken for a complete one, and can be repeated.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::Info;
use graph::{Directory, GraphError, LogPlaces, OpenError, Snapshot};
use replication::{Checkpoint, SnapshotManifest};
use tokio::runtime::Runtime;

use super::catalog::{self, SnapshotName};
use super::copying::store_manifest;
use super::error::SnapshotError;
use super::lease::Lease;
use super::objects::Objects;
use super::starting::{Download, places_of};
use crate::connection;
use crate::engine::start_runtime;
use crate::error::JoinError;
use crate::incarnations;
use crate::options::Options;
use crate::settings;
use crate::stream::{self, LogState};

/// Connection to the engine for an import. Owned by the command.
pub struct Importer {
    runtime: Runtime,
    context: Context,
    options: Options,
}

/// Callback for the progress of an import.
type Tell = Arc<dyn Fn(Progress) + Send + Sync>;

/// An import that is being made.
#[derive(Clone, Copy)]
struct Import<'a> {
    runtime: &'a Runtime,
    objects: &'a Objects,
    directory: &'a Directory,
    graph: &'a Snapshot,
    tell: &'a Tell,
}

/// State of a cluster without entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// There is no log.
    NoLog,
    /// A log without entries and without a graph: nothing was appended yet, or an import was
    /// interrupted.
    NoGraph,
    /// A log without entries, with an imported graph.
    Graph,
}

/// Progress of an import, in bytes of the copy of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Bytes sent, and the total.
    Sent(u64, u64),
    /// Bytes read back, and the total.
    Checked(u64, u64),
}

/// Result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Epoch of the log, which is part of the cluster's event ids.
    pub epoch: String,
    /// Name of the snapshot.
    pub snapshot: String,
    /// Size of the copy, in bytes.
    pub bytes: u64,
    /// Whether the snapshot was made now, rather than by an earlier import of the same graph.
    pub is_new: bool,
}

/// Reason why a graph was not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The engine or the log cannot be used.
    #[error("{0}")]
    Join(#[from] JoinError),
    /// The log has entries.
    #[error(
        "the log of the cluster has entries already: the stream {stream} ends at entry {last}, but \
         only a new log can begin with this graph; choose another --cluster-name or, to start the \
         cluster from scratch, stop all its nodes and delete its streams with `nats stream rm \
         {stream}` and `nats stream rm {bucket}`"
    )]
    HasEntries {
        /// Name of the stream.
        stream: String,
        /// Name of the bucket for snapshots.
        bucket: String,
        /// Sequence of the last entry.
        last: u64,
    },
    /// The log begins with another graph.
    #[error(
        "this cluster has an imported graph, but it is not the one of this data directory ({why}); \
         choose another --cluster-name, or delete the streams of the cluster with `nats stream rm \
         {stream}` and `nats stream rm {bucket}`"
    )]
    OtherGraph {
        /// Name of the stream.
        stream: String,
        /// Name of the bucket for snapshots.
        bucket: String,
        /// The difference, or the error of the other graph.
        why: String,
    },
    /// The copy read back from the engine differs from the one sent.
    #[error(
        "the copy of the graph read back from the engine differs from the one sent ({0}); no \
         node can start with it; check the disks of the engine's servers, and run the import again"
    )]
    Differs(String),
    /// A snapshot cannot be stored or read.
    #[error("{0}")]
    Snapshot(SnapshotError),
    /// The graph of the data directory cannot be read or copied.
    #[error("{0}")]
    Graph(String),
    /// Another import of the same cluster has begun.
    #[error(
        "another import of this cluster has begun meanwhile, and this one has changed nothing; \
         wait for the other one, or run this one again"
    )]
    TakenOver,
}

impl Importer {
    /// Connects to the engine.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::join`](crate::engine::Engine::join).
    pub fn connect(options: Options) -> Result<Self, ImportError> {
        let runtime = start_runtime()?;
        let context = runtime.block_on(async {
            let client = connection::connect(&options, &Arc::default()).await?;
            stream::context(&client, &options)
        })?;
        Ok(Self {
            runtime,
            context,
            options,
        })
    }

    /// Returns the state of the cluster.
    ///
    /// # Errors
    ///
    /// [`ImportError::HasEntries`], and when a request to the engine fails.
    pub fn look(&self) -> Result<Found, ImportError> {
        self.runtime.block_on(async {
            let Some((epoch, _)) = self.find().await? else {
                return Ok(Found::NoLog);
            };
            let objects = Objects::find(&self.context, &self.options.cluster).await?;
            let Some(objects) = objects else {
                return Ok(Found::NoGraph);
            };
            let snapshots = catalog::list(&objects, &epoch).await?;
            Ok(match snapshots.is_empty() {
                true => Found::NoGraph,
                false => Found::Graph,
            })
        })
    }

    /// Imports the graph of a data directory into the cluster. `new_epoch` is the epoch of its
    /// event ids if there is no log yet. Calls `tell` with the progress. Blocks the thread.
    ///
    /// # Errors
    ///
    /// When the log has entries, begins with another graph, or the copy read back differs from the
    /// one sent. No node can have started with a failed import.
    pub fn import(
        &self,
        directory: &Directory,
        mut graph: Snapshot,
        new_epoch: &str,
        tell: &Tell,
    ) -> Result<Imported, ImportError> {
        let (epoch, objects) = self.runtime.block_on(self.make_log(new_epoch))?;
        // Before the first entry.
        graph.set_log(LogPlaces {
            epoch: epoch.as_str().into(),
            last: (&Checkpoint::default()).into(),
            earlier: Vec::new(),
        });
        let import = Import {
            runtime: &self.runtime,
            objects: &objects,
            directory,
            graph: &graph,
            tell,
        };
        let names = self.runtime.block_on(catalog::list(&objects, &epoch))?;
        if let Some(name) = names.first() {
            let manifest = self.runtime.block_on(catalog::manifest(&objects, name))?;
            return match import.check(name, &manifest) {
                Ok(()) => Ok(imported(epoch, name, &manifest, false)),
                Err(ImportError::Differs(why)) => Err(self.other_graph(why)),
                Err(error) => Err(error),
            };
        }
        let incarnation = incarnations::random()
            .ok_or_else(|| ImportError::Graph("the system has no random bits now".to_owned()))?;
        let mut lease = self.runtime.block_on(Lease::seize(&objects, incarnation))?;
        self.runtime
            .block_on(catalog::remove_old(&objects, &epoch, u64::MAX))?;
        let name = SnapshotName {
            read: 0,
            random: incarnation.number(),
            epoch: epoch.as_str().into(),
        };
        let manifest = import.store(&name)?;
        import.check(&name, &manifest)?;
        self.runtime.block_on(async {
            lease.renew().await?;
            // A node that joined in spite of the mark would not have the graph.
            self.find().await?;
            store_manifest(&objects, &name, &manifest).await?;
            if let Err(error) = lease.free().await {
                tracing::debug!("{error}");
            }
            Ok(imported(epoch, &name, &manifest, true))
        })
    }

    /// Returns the epoch and the state of the log, if there is one. Fails if the log has entries.
    async fn find(&self) -> Result<Option<(String, Info)>, ImportError> {
        let cluster = &self.options.cluster;
        let Some((epoch, info)) = stream::find_log(&self.context, cluster).await? else {
            return Ok(None);
        };
        match LogState::of(&info).last {
            0 => Ok(Some((epoch, info))),
            last => Err(ImportError::HasEntries {
                stream: settings::stream_name(cluster),
                bucket: settings::object_stream_name(cluster),
                last,
            }),
        }
    }

    /// Creates the log, or marks the existing one. Returns its epoch and the objects of the
    /// cluster.
    async fn make_log(&self, new_epoch: &str) -> Result<(String, Objects), ImportError> {
        let Options { cluster, log, .. } = &self.options;
        match self.find().await? {
            None => {
                let mut config = settings::new_stream(cluster, log, new_epoch);
                settings::set_imported(&mut config);
                stream::create(&self.context, &self.options, config).await?;
            }
            Some((_, info)) if !settings::is_imported(&info.config) => {
                let mut config = info.config;
                settings::set_imported(&mut config);
                let marked = self.context.update_stream(&config).await;
                marked.map_err(|error| {
                    JoinError::Request(format!(
                        "the stream {} cannot be changed: {error}",
                        config.name
                    ))
                })?;
            }
            Some(_) => {}
        }
        let stream = settings::stream_name(cluster);
        match self.find().await? {
            Some((epoch, info)) if settings::is_imported(&info.config) => {
                let objects = Objects::open(&self.context, cluster, log).await?;
                Ok((epoch, objects))
            }
            _ => Err(ImportError::Join(JoinError::Create {
                stream,
                reason: "another program changed it meanwhile; stop all nodes, and try again"
                    .to_owned(),
            })),
        }
    }

    fn other_graph(&self, why: String) -> ImportError {
        let cluster = &self.options.cluster;
        ImportError::OtherGraph {
            stream: settings::stream_name(cluster),
            bucket: settings::object_stream_name(cluster),
            why,
        }
    }
}

impl Import<'_> {
    /// Stores a copy of the graph, without the manifest that completes the snapshot.
    fn store(&self, name: &SnapshotName) -> Result<SnapshotManifest, ImportError> {
        let file = self.directory.copy(self.graph)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let tell = Arc::clone(self.tell);
        let counted = Counted {
            source: file,
            done: 0,
            tell: move |done| tell(Progress::Sent(done, length)),
        };
        let object = name.graph();
        let stored = self.runtime.block_on(self.objects.put(&object, counted))?;
        Ok(SnapshotManifest {
            epoch: name.epoch.clone(),
            checkpoint: Checkpoint::default(),
            earlier: Vec::new(),
            bytes: stored.bytes,
            checksum: stored.checksum,
        })
    }

    /// Fetches a copy as a starting node does, and compares it with the graph.
    fn check(&self, name: &SnapshotName, manifest: &SnapshotManifest) -> Result<(), ImportError> {
        if self.graph.log() != Some(&places_of(manifest)) {
            return Err(ImportError::Differs(
                "it has another position in the log".to_owned(),
            ));
        }
        let pieces = self.runtime.block_on(self.objects.fetch(&name.graph()))?;
        let tell = Arc::clone(self.tell);
        let mut download = Counted {
            source: Download::new(self.runtime, pieces, manifest),
            done: 0,
            tell: move |done| tell(Progress::Checked(done, manifest.bytes)),
        };
        let received = self.directory.receive(&mut download);
        match download.source.failure {
            Some(SnapshotError::Refused(reason)) => return Err(ImportError::Differs(reason)),
            Some(failure) => return Err(failure.into()),
            None => {}
        }
        match self.graph.is_same(&received?)? {
            true => Ok(()),
            false => Err(ImportError::Differs(
                "it has other subscriptions or ids".to_owned(),
            )),
        }
    }
}

fn imported(
    epoch: String,
    name: &SnapshotName,
    manifest: &SnapshotManifest,
    is_new: bool,
) -> Imported {
    Imported {
        epoch,
        snapshot: name.to_string(),
        bytes: manifest.bytes,
        is_new,
    }
}

fn unreadable(error: io::Error) -> ImportError {
    ImportError::Graph(format!("the copy of the graph cannot be read: {error}"))
}

/// Reader that reports the number of bytes read.
struct Counted<R, F> {
    source: R,
    done: u64,
    tell: F,
}

impl<R: Read, F: Fn(u64)> Read for Counted<R, F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(out)?;
        self.done += count as u64;
        (self.tell)(self.done);
        Ok(count)
    }
}

impl From<SnapshotError> for ImportError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::LeaseLost => Self::TakenOver,
            error => Self::Snapshot(error),
        }
    }
}

impl From<OpenError> for ImportError {
    fn from(error: OpenError) -> Self {
        Self::Graph(error.to_string())
    }
}

impl From<GraphError> for ImportError {
    fn from(error: GraphError) -> Self {
        Self::Graph(error.to_string())
    }
}

impl fmt::Debug for Importer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Importer")
            .field("cluster", &self.options.cluster)
            .finish_non_exhaustive()
    }
}
