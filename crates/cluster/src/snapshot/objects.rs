//! Objects: files of any size in the engine's object store, in pieces.
//!
//! Their format is that of all NATS clients (ADR-20 of the NATS architecture), so that `nats
//! object` can list and fetch them. Pieces are sent and fetched a few at a time, so that memory is
//! bounded. The description of an object is stored last and completes it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::Read;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::NATS_ROLLUP;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::{PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::object_store::{Config, ObjectInfo, ObjectOptions};
use async_nats::jetstream::stream::{DirectGetErrorKind, LastRawMessageErrorKind, Stream};
use aws_lc_rs::digest::{self, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bytes::Bytes;
use futures_util::TryStreamExt;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::error::SnapshotError;
use crate::options::{LogOptions, Name};
use crate::settings;
use crate::stream::lookup;

/// Size of a piece, in bytes: the default of NATS.
const PIECE_BYTES: usize = 128 << 10;

/// Maximum number of unacknowledged pieces. Entries of the log wait behind them on the connection.
const PIECES_IN_FLIGHT_MAX: usize = 4;

/// Number of attempts to fetch a piece. With the pauses they take longer than an election.
const FETCH_ATTEMPTS: u32 = 12;

/// Pause between two attempts.
const FETCH_PAUSE: Duration = Duration::from_secs(1);

/// Value of the rollup header with which a message replaces all others of its subject.
const ROLLUP_SUBJECT: &str = "sub";

/// The objects of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Objects {
    pub(super) context: Context,
    pub(super) stream: Stream,
    bucket: String,
}

/// Size and checksum of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) bytes: u64,
    pub(super) checksum: [u8; 32],
}

/// An object that is being fetched, piece by piece.
#[derive(Debug)]
pub(super) struct Pieces {
    stream: Stream,
    subject: String,
    /// Number of remaining pieces, and the sequence from which to look for the next one.
    left: usize,
    from: u64,
}

impl Objects {
    /// Returns the objects of a cluster, if it has any.
    pub(super) async fn find(
        context: &Context,
        cluster: &Name,
    ) -> Result<Option<Self>, SnapshotError> {
        let found = lookup(context, &settings::object_stream_name(cluster)).await;
        let found = found.map_err(|error| {
            SnapshotError::engine("the objects of the cluster cannot be found", &error)
        })?;
        Ok(found.map(|stream| Self {
            context: context.clone(),
            stream,
            bucket: settings::bucket_name(cluster),
        }))
    }

    /// Opens the objects of a cluster, or creates a store for them, with the same storage and
    /// replicas as the log.
    pub(super) async fn open(
        context: &Context,
        cluster: &Name,
        log: &LogOptions,
    ) -> Result<Self, SnapshotError> {
        if let Some(objects) = Self::find(context, cluster).await? {
            return Ok(objects);
        }
        let config = Config {
            bucket: settings::bucket_name(cluster),
            description: Some(format!("Snapshots of the Encke cluster {cluster}")),
            max_bytes: -1,
            storage: log.storage,
            num_replicas: log.replicas,
            ..Config::default()
        };
        let what = "the objects of the cluster cannot be made";
        let made = context.create_object_store(config).await;
        made.map_err(|error| SnapshotError::engine(what, &error))?;
        let found = Self::find(context, cluster).await?;
        found.ok_or_else(|| SnapshotError::engine(what, &"they are gone again"))
    }

    /// Returns the subject of the pieces of an object.
    pub(super) fn pieces_subject(&self, name: &str) -> String {
        format!("$O.{}.C.{name}", self.bucket)
    }

    fn info_subject(&self, name: &str) -> String {
        format!("$O.{}.M.{}", self.bucket, URL_SAFE.encode(name))
    }

    /// Returns the names of the complete objects and of the incomplete ones.
    pub(super) async fn names(
        &self,
    ) -> Result<(BTreeSet<String>, BTreeSet<String>), SnapshotError> {
        let failed = |error: &dyn std::fmt::Display| {
            SnapshotError::engine("the objects cannot be listed", &error)
        };
        let all = format!("$O.{}.>", self.bucket);
        let subjects = self.stream.info_with_subjects(all).await;
        let mut subjects = subjects.map_err(|error| failed(&error))?;
        let (mut whole, mut parts) = (BTreeSet::new(), BTreeSet::new());
        let (infos, pieces) = (self.info_prefix(), self.pieces_subject(""));
        while let Some((subject, _)) = subjects.try_next().await.map_err(|error| failed(&error))? {
            if let Some(encoded) = subject.strip_prefix(&infos) {
                let name = URL_SAFE.decode(encoded).ok();
                whole.extend(name.and_then(|name| String::from_utf8(name).ok()));
            } else if let Some(name) = subject.strip_prefix(&pieces) {
                parts.insert(name.to_owned());
            }
        }
        parts.retain(|name| !whole.contains(name));
        Ok((whole, parts))
    }

    fn info_prefix(&self) -> String {
        format!("$O.{}.M.", self.bucket)
    }

    /// Stores the contents of `source` as an object, whose name no other writer may use.
    pub(super) async fn put<R: Read + Send + 'static>(
        &self,
        name: &str,
        source: R,
    ) -> Result<Stored, SnapshotError> {
        let failed = |error: &dyn std::fmt::Display| {
            SnapshotError::engine(&format!("the object {name} cannot be stored"), &error)
        };
        let limit = self.context.client().max_payload() / 2;
        let size = PIECE_BYTES.min(limit.max(1));
        let subject = self.pieces_subject(name);
        let mut in_flight: VecDeque<PublishAckFuture> = VecDeque::new();
        let mut digest = digest::Context::new(&SHA256);
        let (mut source, mut bytes, mut pieces) = (source, 0, 0);
        loop {
            let read = spawn_blocking(move || read_piece(source, size)).await;
            let (rest, piece) = match read.map_err(|error| SnapshotError::copy(&error))? {
                Ok(read) => read,
                Err(error) => return Err(SnapshotError::copy(&error)),
            };
            source = rest;
            if piece.is_empty() {
                break;
            }
            digest.update(&piece);
            bytes += piece.len() as u64;
            pieces += 1;
            if in_flight.len() >= PIECES_IN_FLIGHT_MAX
                && let Some(first) = in_flight.pop_front()
            {
                first.await.map_err(|error| failed(&error))?;
            }
            let sent = self.context.publish(subject.clone(), piece).await;
            in_flight.push_back(sent.map_err(|error| failed(&error))?);
        }
        for sent in in_flight {
            sent.await.map_err(|error| failed(&error))?;
        }
        let mut stored = Stored {
            bytes,
            checksum: [0; 32],
        };
        stored.checksum.copy_from_slice(digest.finish().as_ref());
        let info = self.info_of(name, size, pieces, stored);
        let info = serde_json::to_vec(&info).map_err(|error| failed(&error))?;
        let message = PublishMessage::build()
            .payload(info.into())
            .header(NATS_ROLLUP, ROLLUP_SUBJECT);
        let sent = self.context.send_publish(self.info_subject(name), message);
        let sent = sent.await.map_err(|error| failed(&error))?;
        sent.await.map_err(|error| failed(&error))?;
        Ok(stored)
    }

    fn info_of(&self, name: &str, size: usize, pieces: usize, stored: Stored) -> ObjectInfo {
        ObjectInfo {
            name: name.to_owned(),
            description: None,
            metadata: HashMap::new(),
            headers: None::<HeaderMap>,
            options: Some(ObjectOptions {
                link: None,
                max_chunk_size: Some(size),
            }),
            bucket: self.bucket.clone(),
            nuid: name.to_owned(),
            size: usize::try_from(stored.bytes).unwrap_or(usize::MAX),
            chunks: pieces,
            modified: None,
            digest: Some(format!("SHA-256={}", URL_SAFE.encode(stored.checksum))),
            deleted: false,
        }
    }

    /// Begins to fetch an object.
    pub(super) async fn fetch(&self, name: &str) -> Result<Pieces, SnapshotError> {
        let subject = self.info_subject(name);
        let info = self.stream.get_last_raw_message_by_subject(&subject).await;
        let info = info.map_err(|error| match error.kind() {
            LastRawMessageErrorKind::NoMessageFound => {
                SnapshotError::refused(format!("there is no object {name}"))
            }
            _ => SnapshotError::engine(&format!("the object {name} cannot be found"), &error),
        })?;
        let info: ObjectInfo = serde_json::from_slice(&info.payload).map_err(|error| {
            SnapshotError::refused(format!("the description of {name} cannot be read: {error}"))
        })?;
        Ok(Pieces {
            stream: self.stream.clone(),
            subject: self.pieces_subject(name),
            left: info.chunks,
            from: 1,
        })
    }

    /// Removes an object, complete or not. Its description goes first.
    pub(super) async fn remove(&self, name: &str) -> Result<(), SnapshotError> {
        for subject in [self.info_subject(name), self.pieces_subject(name)] {
            let purged = self.stream.purge().filter(subject).await;
            purged.map_err(|error| {
                SnapshotError::engine(&format!("the object {name} cannot be removed"), &error)
            })?;
        }
        Ok(())
    }

    /// Replaces the message of a subject if its last message has the sequence `expected`, 0 for
    /// none. Returns the sequence of the new message; `None` if the last one has another sequence.
    pub(super) async fn replace(
        &self,
        subject: String,
        value: Bytes,
        expected: u64,
    ) -> Result<Option<u64>, SnapshotError> {
        let message = PublishMessage::build()
            .payload(value)
            .header(NATS_ROLLUP, ROLLUP_SUBJECT)
            .expected_last_subject_sequence(expected);
        let sent = match self.context.send_publish(subject, message).await {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        match sent {
            Ok(stored) => Ok(Some(stored.sequence)),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(None),
            Err(error) => Err(SnapshotError::engine("a message cannot be stored", &error)),
        }
    }
}

/// Reads a piece; an empty one at the end.
fn read_piece<R: Read>(mut source: R, size: usize) -> std::io::Result<(R, Bytes)> {
    let mut piece = Vec::with_capacity(size);
    Read::take(&mut source, size as u64).read_to_end(&mut piece)?;
    Ok((source, piece.into()))
}

impl Pieces {
    /// Returns the next piece; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, SnapshotError> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut attempt = 1;
        loop {
            let error = match self.fetch().await {
                Ok(Some(piece)) => return Ok(Some(piece)),
                Ok(None) => {
                    let left = self.left;
                    return Err(SnapshotError::refused(format!("{left} pieces are missing")));
                }
                Err(error) => error,
            };
            if attempt == FETCH_ATTEMPTS {
                return Err(error);
            }
            attempt += 1;
            sleep(FETCH_PAUSE).await;
        }
    }

    /// Fetches the next piece; `None` if the leader of the stream does not have it.
    async fn fetch(&mut self) -> Result<Option<Bytes>, SnapshotError> {
        let next = self
            .stream
            .direct_get_next_for_subject(&self.subject, Some(self.from));
        let message = match next.await {
            Ok(message) => message,
            // A follower may not have all messages of the leader.
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => {
                let next = self
                    .stream
                    .get_first_raw_message_by_subject(&self.subject, self.from);
                match next.await {
                    Ok(message) => message,
                    Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                        return Ok(None);
                    }
                    Err(error) => return Err(SnapshotError::engine("a piece is missing", &error)),
                }
            }
            Err(error) => return Err(SnapshotError::engine("a piece cannot be fetched", &error)),
        };
        self.from = message.sequence + 1;
        self.left -= 1;
        Ok(Some(message.payload))
    }
}
