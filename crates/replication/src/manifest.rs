//! Manifests: descriptions of snapshots.
//!
//! A snapshot is a copy of a node's graph in the object store of the engine. Another node starts
//! from it if the log no longer has the entries that the node needs.

use bytes::Bytes;

use crate::checkpoint::Checkpoint;
use crate::codec::{self, Source, bounded};
use crate::error::DecodeError;

/// Maximum size of an epoch, in bytes.
pub const EPOCH_BYTES_MAX: usize = 64;

/// Maximum number of earlier checkpoints of a snapshot.
pub const EARLIER_MAX: usize = 64;

/// Version of the format.
const VERSION: u8 = 1;

/// Minimum size of a checkpoint, in bytes: two sequences and a number.
const CHECKPOINT_BYTES_MIN: usize = 2 * size_of::<u64>() + size_of::<u32>();

/// Description of a snapshot, stored with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotManifest {
    /// Epoch of the stream. A snapshot of another stream cannot be used.
    pub epoch: Box<str>,
    /// State of the reader at the time of the copy.
    pub checkpoint: Checkpoint,
    /// Earlier states, the oldest first, from which a node may refill its history.
    pub earlier: Vec<Checkpoint>,
    /// Size of the copy, in bytes.
    pub bytes: u64,
    /// SHA-256 of the copy.
    pub checksum: [u8; 32],
}

impl SnapshotManifest {
    /// Encodes the manifest.
    ///
    /// # Errors
    ///
    /// When a part could not be decoded again.
    pub fn encode(&self) -> Result<Bytes, DecodeError> {
        bounded("an epoch", self.epoch.len(), EPOCH_BYTES_MAX)?;
        let what = "the number of checkpoints";
        bounded(what, self.earlier.len(), EARLIER_MAX)?;
        self.check_order()?;
        let mut out = vec![VERSION];
        codec::put_short_text(&mut out, &self.epoch);
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.checksum);
        self.checkpoint.put(&mut out);
        codec::put_count(&mut out, self.earlier.len());
        for earlier in &self.earlier {
            earlier.put(&mut out);
        }
        Ok(out.into())
    }

    /// Decodes a manifest.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one manifest.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let manifest = Source::decode(bytes, VERSION, |source| {
            let epoch = source.short_text("an epoch", EPOCH_BYTES_MAX)?.into();
            let (bytes, checksum) = (source.u64()?, source.array()?);
            let checkpoint = Checkpoint::take(source)?;
            let what = "the number of checkpoints";
            let earlier = source.list(what, EARLIER_MAX, CHECKPOINT_BYTES_MIN, Checkpoint::take)?;
            Ok(Self {
                epoch,
                checkpoint,
                earlier,
                bytes,
                checksum,
            })
        })?;
        manifest.check_order()?;
        Ok(manifest)
    }

    fn check_order(&self) -> Result<(), DecodeError> {
        let all = || self.earlier.iter().chain([&self.checkpoint]);
        let is_ordered = all().zip(all().skip(1)).all(|(a, b)| a.read < b.read);
        if !is_ordered || self.epoch.is_empty() {
            let what = "the order of checkpoints, or an empty epoch,";
            return Err(DecodeError::Invalid(what));
        }
        Ok(())
    }
}
