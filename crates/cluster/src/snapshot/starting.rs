//! Opening of a node's graph at start, from a snapshot if needed.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::Path;

use aws_lc_rs::digest::{self, SHA256};
use bytes::{Buf, Bytes};
use graph::{Directory, Graph, LogPlaces, OpenError};
use replication::SnapshotManifest;
use tokio::runtime::Runtime;

use super::catalog::{self, SnapshotName};
use super::error::SnapshotError;
use super::objects::{Objects, Pieces};
use crate::apply::{StartError, begin_from};
use crate::engine::Engine;
use crate::options::Options;

/// Maximum number of snapshots that are tried: the two that are kept, and newer ones made
/// meanwhile.
const TRIED_MAX: usize = 4;

impl Engine {
    /// Opens the graph of this node in `path`. If it is new, or if the log no longer has the
    /// entries after it, it is first replaced by the newest usable snapshot. Blocks the thread.
    ///
    /// # Errors
    ///
    /// When the graph cannot be opened, or when there are snapshots but none can be used. Then the
    /// graph is unchanged.
    pub fn open_graph(&mut self, path: &Path, options: &Options) -> Result<Graph, SnapshotError> {
        let graph = Graph::open_in_log(path, self.epoch()).map_err(SnapshotError::Open)?;
        if !self.needs_snapshot(&graph) {
            return Ok(graph);
        }
        let is_new = graph
            .log_start()
            .is_none_or(|places| places.last.sequence == 0);
        let must_be_there = self.stream.is_imported && is_new;
        graph.end();
        drop(graph);
        let directory = Directory::lock(path).map_err(SnapshotError::Open)?;
        let found = self.use_newest(options, |copy, places| directory.install(copy, places))?;
        if found.is_none() && must_be_there {
            return Err(SnapshotError::NotImported);
        }
        drop(directory);
        Graph::open_in_log(path, self.epoch()).map_err(SnapshotError::Open)
    }

    /// Creates the graph of a node without a directory: from the newest usable snapshot, or empty
    /// if there is none. The copy is in memory until it is loaded. Blocks the thread.
    ///
    /// # Errors
    ///
    /// When there are snapshots but none can be used, or there is none and the cluster begins with
    /// an imported graph.
    pub fn graph_in_memory(&mut self, options: &Options) -> Result<Graph, SnapshotError> {
        let take = |copy: &mut Download<'_>, places: &_| Graph::memory_from_copy(copy, places);
        match self.use_newest(options, take)? {
            Some(graph) => Ok(graph),
            None if self.stream.is_imported => Err(SnapshotError::NotImported),
            None => Ok(Graph::memory_in_log(self.epoch())),
        }
    }

    /// Returns whether the node cannot or should not read the log from the position of its graph.
    fn needs_snapshot(&self, graph: &Graph) -> bool {
        let places = graph.log_start().cloned().unwrap_or_default();
        let is_new = places.last.sequence == 0 && graph.counts().edges == 0;
        let begin = begin_from(&places, self.state.first);
        is_new || matches!(begin, Err(StartError::Trimmed { .. }))
    }

    /// Calls `take` with snapshots, the newest first, until it accepts one. `None` if there is
    /// none.
    fn use_newest<T>(
        &mut self,
        options: &Options,
        mut take: impl FnMut(&mut Download<'_>, &LogPlaces) -> Result<T, OpenError>,
    ) -> Result<Option<T>, SnapshotError> {
        let finding = Objects::find(&self.stream.context, &options.cluster);
        let Some(objects) = self.runtime.block_on(finding)? else {
            return Ok(None);
        };
        let (mut tried, mut reasons) = (BTreeSet::new(), Vec::new());
        for _ in 0..TRIED_MAX {
            // The list is requested each time: while a snapshot is fetched, the log may be trimmed
            // beyond it and a newer one may be made.
            let names = self
                .runtime
                .block_on(catalog::list(&objects, self.epoch()))?;
            let Some(name) = names.into_iter().find(|name| !tried.contains(name)) else {
                break;
            };
            match self.fetch(&objects, &name, &mut take) {
                Ok(taken) => {
                    tracing::info!("the graph starts from the snapshot {name}");
                    return Ok(Some(taken));
                }
                Err(error) => {
                    tracing::warn!("the snapshot {name} is not used: {error}");
                    reasons.push(format!("{name}: {error}"));
                }
            }
            tried.insert(name);
        }
        match reasons.is_empty() {
            true => Ok(None),
            false => Err(SnapshotError::NoneUsable { reasons }),
        }
    }

    /// Calls `take` with a snapshot, if the log continues after it.
    fn fetch<T>(
        &mut self,
        objects: &Objects,
        name: &SnapshotName,
        take: &mut impl FnMut(&mut Download<'_>, &LogPlaces) -> Result<T, OpenError>,
    ) -> Result<T, SnapshotError> {
        let manifest = self.runtime.block_on(catalog::manifest(objects, name))?;
        if *manifest.epoch != *self.epoch() {
            return Err(SnapshotError::refused(format!(
                "it belongs to a log with the epoch {}, but the log of this cluster has {}",
                manifest.epoch,
                self.epoch()
            )));
        }
        let read = manifest.checkpoint.read.number();
        self.check_log(read)?;
        let pieces = self.runtime.block_on(objects.fetch(&name.graph()))?;
        let places = places_of(&manifest);
        let mut download = Download::new(&self.runtime, pieces, &manifest);
        let taken = take(&mut download, &places);
        if let Some(failure) = download.failure {
            return Err(failure);
        }
        let taken = taken.map_err(|error| match error {
            OpenError::Torn { why, .. } => SnapshotError::refused(why),
            error => SnapshotError::Open(error),
        })?;
        self.check_log(read)?;
        Ok(taken)
    }

    /// Checks that the log continues after entry `read`.
    fn check_log(&mut self, read: u64) -> Result<(), SnapshotError> {
        let state = self.ask();
        self.state = state.map_err(|error| SnapshotError::engine("the log", &error))?;
        let (first, last) = (self.state.first, self.state.last);
        if read > last {
            return Err(SnapshotError::refused(format!(
                "it has the log up to entry {read}, but the log ends at {last}"
            )));
        }
        if read.saturating_add(1) < first {
            return Err(SnapshotError::refused(format!(
                "it has the log up to entry {read}, but the log now begins at {first}"
            )));
        }
        Ok(())
    }
}

/// Returns the positions that the copy of a snapshot must have.
pub(super) fn places_of(manifest: &SnapshotManifest) -> LogPlaces {
    LogPlaces {
        epoch: manifest.epoch.clone(),
        last: (&manifest.checkpoint).into(),
        earlier: manifest.earlier.iter().map(Into::into).collect(),
    }
}

/// Reader of a copy of a graph in the object store. It ends without an error only if the copy
/// matches its manifest.
pub(super) struct Download<'a> {
    runtime: &'a Runtime,
    pieces: Pieces,
    piece: Bytes,
    digest: digest::Context,
    bytes: u64,
    manifest: &'a SnapshotManifest,
    pub(super) failure: Option<SnapshotError>,
}

impl<'a> Download<'a> {
    pub(super) fn new(
        runtime: &'a Runtime,
        pieces: Pieces,
        manifest: &'a SnapshotManifest,
    ) -> Self {
        Self {
            runtime,
            pieces,
            piece: Bytes::new(),
            digest: digest::Context::new(&SHA256),
            bytes: 0,
            manifest,
            failure: None,
        }
    }

    /// Fetches the next piece; after the last it stays empty.
    fn fetch(&mut self) -> Result<(), SnapshotError> {
        while self.piece.is_empty() {
            match self.runtime.block_on(self.pieces.next())? {
                Some(piece) => self.piece = piece,
                None => return self.check(),
            }
        }
        self.digest.update(&self.piece);
        self.bytes += self.piece.len() as u64;
        if self.bytes > self.manifest.bytes {
            return Err(self.wrong_size("or more"));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), SnapshotError> {
        if self.bytes != self.manifest.bytes {
            return Err(self.wrong_size("in all"));
        }
        if self.digest.clone().finish().as_ref() != self.manifest.checksum {
            return Err(SnapshotError::refused("its checksum is wrong"));
        }
        Ok(())
    }

    fn wrong_size(&self, how: &str) -> SnapshotError {
        let (found, expected) = (self.bytes, self.manifest.bytes);
        SnapshotError::refused(format!("it has {found} bytes {how}, not {expected}"))
    }
}

impl Read for Download<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty()
            && let Err(failure) = self.fetch()
        {
            let error = io::Error::other(failure.to_string());
            self.failure = Some(failure);
            return Err(error);
        }
        let count = out.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut out[..count]);
        Ok(count)
    }
}
