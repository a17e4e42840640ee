//! The interface to the workers' mailboxes.

use std::time::Duration;

use crate::plan::Parcel;
use crate::session::WorkerId;

/// Interface of the router to the workers' mailboxes.
pub trait Mailboxes: Send + Sync {
    /// Returns the time, by a clock that the workers can compare with theirs. Read once for each
    /// plan. The default is for workers that measure no latencies.
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    /// Appends `parcel` to a worker's mailbox.
    ///
    /// # Errors
    ///
    /// Returns the parcel when the mailbox is full or closed. Its recipients are counted as shed.
    fn post(&self, worker: WorkerId, parcel: Parcel) -> Result<(), Parcel>;

    /// Wakes a worker if it sleeps, after something was posted to it.
    fn ring(&self, worker: WorkerId);
}
