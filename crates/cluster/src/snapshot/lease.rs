//! The lease of the node that makes a snapshot: a message in the object store that each holder
//! replaces.
//!
//! A node replaces only the message that it has read last, so only one of two nodes succeeds.
//! Clocks of nodes are not compared: a lease that does not change for `PATIENCE` is free. The lease
//! only avoids duplicate work: two snapshots at the same time do no harm.

use std::pin::pin;
use std::time::Duration;

use async_nats::jetstream::stream::LastRawMessageErrorKind;
use bytes::Bytes;
use replication::Incarnation;
use tokio::time::{Instant, timeout};

use super::error::SnapshotError;
use super::objects::Objects;

/// Interval at which a holder renews its lease.
const RENEWAL: Duration = Duration::from_secs(5);

/// Time without a renewal after which a lease is free.
const PATIENCE: Duration = Duration::from_secs(30);

/// Name of the lease among the pieces of objects, different from those of snapshots.
const NAME: &str = "lease";

/// Last observation of the lease. Owned by the copying task.
#[derive(Debug, Default)]
pub(super) struct LeaseWatch {
    /// Sequence of the message of another holder, and the time when it was first seen.
    seen: Option<(u64, Instant)>,
}

/// Lease of this node.
#[derive(Debug)]
pub(super) struct Lease<'a> {
    objects: &'a Objects,
    holder: Bytes,
    /// Sequence of this node's message.
    sequence: u64,
}

/// Returns the sequence of the last message, 0 if there is none, and its holder, empty if there is
/// none.
async fn last(objects: &Objects) -> Result<(u64, Bytes), SnapshotError> {
    let subject = objects.pieces_subject(NAME);
    match objects
        .stream
        .get_last_raw_message_by_subject(&subject)
        .await
    {
        Ok(message) => Ok((message.sequence, message.payload)),
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
            Ok((0, Bytes::new()))
        }
        Err(error) => Err(SnapshotError::engine("the lease cannot be read", &error)),
    }
}

impl LeaseWatch {
    /// Takes the lease if it is free; `None` if another node has it.
    pub(super) async fn take<'a>(
        &mut self,
        objects: &'a Objects,
        incarnation: Incarnation,
    ) -> Result<Option<Lease<'a>>, SnapshotError> {
        let (sequence, holder) = last(objects).await?;
        if !holder.is_empty() {
            let now = Instant::now();
            let since = match self.seen {
                Some((seen, since)) if seen == sequence => since,
                _ => now,
            };
            self.seen = Some((sequence, since));
            if now - since < PATIENCE {
                return Ok(None);
            }
        }
        self.seen = None;
        Lease::take(objects, incarnation, sequence).await
    }
}

impl<'a> Lease<'a> {
    /// Takes the lease even if another node has it, which then cannot complete its snapshot.
    pub(super) async fn seize(
        objects: &'a Objects,
        incarnation: Incarnation,
    ) -> Result<Self, SnapshotError> {
        let (sequence, _) = last(objects).await?;
        let taken = Self::take(objects, incarnation, sequence).await?;
        taken.ok_or(SnapshotError::LeaseLost)
    }

    /// Takes the lease if its last message has this sequence.
    async fn take(
        objects: &'a Objects,
        incarnation: Incarnation,
        sequence: u64,
    ) -> Result<Option<Self>, SnapshotError> {
        let holder = Bytes::copy_from_slice(&incarnation.number().to_be_bytes());
        let subject = objects.pieces_subject(NAME);
        let taken = objects.replace(subject, holder.clone(), sequence).await?;
        Ok(taken.map(|sequence| Self {
            objects,
            holder,
            sequence,
        }))
    }

    /// Renews the lease.
    pub(super) async fn renew(&mut self) -> Result<(), SnapshotError> {
        self.replace(self.holder.clone()).await
    }

    /// Releases the lease.
    pub(super) async fn free(mut self) -> Result<(), SnapshotError> {
        self.replace(Bytes::new()).await
    }

    async fn replace(&mut self, value: Bytes) -> Result<(), SnapshotError> {
        if let Ok(true) = self.try_replace(&value).await {
            return Ok(());
        }
        // The message may have been stored although the answer was lost.
        let (sequence, holder) = last(self.objects).await?;
        if holder != self.holder {
            return Err(SnapshotError::LeaseLost);
        }
        self.sequence = sequence;
        match self.try_replace(&value).await? {
            true => Ok(()),
            false => Err(SnapshotError::LeaseLost),
        }
    }

    /// Replaces the message of this node. Returns whether it was still the last one.
    async fn try_replace(&mut self, value: &Bytes) -> Result<bool, SnapshotError> {
        let subject = self.objects.pieces_subject(NAME);
        let replacing = self.objects.replace(subject, value.clone(), self.sequence);
        let replaced = replacing.await?;
        self.sequence = replaced.unwrap_or(self.sequence);
        Ok(replaced.is_some())
    }

    /// Runs `work` while renewing the lease.
    pub(super) async fn hold<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, SnapshotError> {
        let mut work = pin!(work);
        loop {
            if let Ok(done) = timeout(RENEWAL, work.as_mut()).await {
                return Ok(done);
            }
            // After an election of the engine the next renewal succeeds.
            if let Err(SnapshotError::LeaseLost) = self.renew().await {
                return Err(SnapshotError::LeaseLost);
            }
        }
    }
}
