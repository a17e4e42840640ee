//! The record layer of TLS 1.3, once the handshake is done (RFC 8446, section 5).
//!
//! Keeps the keys of both directions and nothing else while a connection is idle.

/// Records of the peer: opened, and what they say.
mod open;
/// Records to the peer.
mod seal;

use std::fmt;

use crate::record::Partial;
use crate::traffic::{Suite, TrafficKeys};

/// Records sealed under one key; then the server changes it.
///
/// AES-GCM stays safe for 2^24.5 full records (RFC 8446, section 5.5); rustls changes keys after
/// 2^24. Half of that leaves room, and a connection with 1,000 events a second gets there in two
/// hours.
pub(crate) const RECORDS_PER_KEY_MAX: u64 = 1 << 23;

/// Consecutive `KeyUpdate` messages that a peer may send without application data between them, as
/// in BoringSSL. Each costs the server three derivations, and the peer 27 bytes.
pub(crate) const KEY_UPDATES_MAX: u8 = 32;

/// Keys and state of an established connection of TLS 1.3.
pub(crate) struct Established {
    send: TrafficKeys,
    receive: TrafficKeys,
    /// A record of the peer whose end has not arrived.
    partial: Partial,
    suite: Suite,
    /// Whether the peer asked for new keys, and none were sent since.
    key_update_requested: bool,
    /// Whether the peer sent `close_notify`.
    peer_closed: bool,
    /// Whether the server sent `close_notify` or another alert.
    closed: bool,
    /// Whether the handshake resumed an earlier session.
    resumed: bool,
    /// Records without content in a row.
    empty_records: u8,
    /// `KeyUpdate` messages since the last application data.
    key_updates: u8,
    /// Bytes of a `KeyUpdate` message whose end is in a later record. What they were is known: all
    /// its bytes but the last are the same in every one.
    message_bytes: u8,
}

impl Established {
    /// Returns the record layer over these keys.
    pub(crate) fn new(
        suite: Suite,
        send: TrafficKeys,
        receive: TrafficKeys,
        resumed: bool,
    ) -> Self {
        Self {
            send,
            receive,
            partial: Partial::default(),
            suite,
            key_update_requested: false,
            peer_closed: false,
            closed: false,
            resumed,
            empty_records: 0,
            key_updates: 0,
            message_bytes: 0,
        }
    }

    /// Returns whether the keys of both directions follow from their secrets.
    #[cfg(test)]
    pub(crate) fn has_derived_keys(&self) -> bool {
        self.send.are_derived(self.suite) && self.receive.are_derived(self.suite)
    }

    /// Returns whether the handshake resumed an earlier session.
    pub(crate) fn resumed(&self) -> bool {
        self.resumed
    }

    /// Bytes that wait for the end of their record.
    pub(crate) fn buffered(&self) -> usize {
        self.partial.len()
    }
}

impl fmt::Debug for Established {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Established")
            .field("suite", &self.suite)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
