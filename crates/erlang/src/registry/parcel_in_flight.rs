//! Parcels whose messages are written or queued, until their counts are known.

use ::router::{Counts, Parcel};

use crate::connections::{ConnectionId, Connections};

/// A parcel whose messages are written or queued. Its publisher waits for the counts.
#[derive(Debug)]
pub(crate) struct ParcelInFlight {
    pub(crate) parcel: Parcel,
    /// Number of messages written to each connection.
    pub(super) written: Vec<(ConnectionId, u64)>,
    pub(super) queued: u64,
    pub(super) shed: u64,
}

impl ParcelInFlight {
    /// Returns the outcome of the parcel, after the driver has tried all sockets.
    pub(crate) fn counts(&self, connections: &Connections) -> Counts {
        let mut counts = Counts {
            queued: self.queued,
            shed: self.shed,
            ..Counts::default()
        };
        for &(connection, count) in &self.written {
            match connections.get(connection) {
                Some(connection) if connection.send_buffer.is_empty() => counts.written += count,
                Some(_) => counts.queued += count,
                None => counts.shed += count,
            }
        }
        counts
    }
}
