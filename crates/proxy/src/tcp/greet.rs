//! Stage 2: the PROXY header with which a client begins that another proxy speaks for.
//!
//! Until it is whole, its beginning is held where the client's bytes for the backend would be; what
//! comes behind it stays there.

use std::mem;

use reactor::{Received, Relay, SlotKey};

use crate::complaints::Complaint;
use crate::tcp::closing::CloseReason;
use crate::tcp::header::{self, Header, HeaderError};
use crate::tcp::pair::Held;
use crate::tcp::settings::HeaderVersion;
use crate::tcp::stats::Metric;
use crate::tcp::worker::Worker;

impl<D: Relay> Worker<D> {
    /// Reads what a client has sent that must begin with a header.
    pub(crate) fn greet(&mut self, key: SlotKey) {
        let mut block = mem::take(&mut self.block);
        while let Some(pair) = self.pairs.get_mut(key) {
            self.stats.add(Metric::Receives, 1);
            match self.driver.recv(&pair.client, &mut block) {
                Received::Bytes(count) => {
                    self.stats.add(Metric::BytesRead, count as u64);
                    if self.take_greeting(key, &block[..count]) {
                        break;
                    }
                }
                Received::Blocked => break,
                Received::Ended | Received::Failed(_) => {
                    self.close(key, CloseReason::Header);
                    break;
                }
            }
        }
        self.block = block;
    }

    /// Returns whether the greeting is over.
    fn take_greeting(&mut self, key: SlotKey, bytes: &[u8]) -> bool {
        let Some(pair) = self.pair(key) else {
            return true;
        };
        let mut begun = match pair.up.held.take().map(|held| *held) {
            Some(Held::Bytes(begun, _)) => begun,
            _ => Vec::new(),
        };
        begun.extend_from_slice(bytes);
        match header::parse(&begun) {
            Ok(None) => {
                pair.up.held = Some(Box::new(Held::Bytes(begun, 0)));
                false
            }
            Ok(Some((header, consumed))) => {
                if let (Some((source, destination)), Some(origin)) =
                    (header.addresses, pair.origin.as_deref_mut())
                {
                    origin.source = source;
                    origin.destination = Some(destination);
                }
                if consumed < begun.len() {
                    pair.up.held = Some(Box::new(Held::Bytes(begun, consumed)));
                }
                // There may be more behind what was read.
                pair.up.unread = true;
                self.enter_source(key);
                true
            }
            Err(error) => {
                self.refuse_greeting(key, error);
                true
            }
        }
    }

    fn refuse_greeting(&mut self, key: SlotKey, error: HeaderError) {
        let Some(pair) = self.pair(key) else {
            return;
        };
        let listener = pair.front.address;
        self.close(key, CloseReason::Header);
        let key = listener.to_string();
        self.complaints.note(self.now, Complaint::Header, &key, || {
            format!(
                "a client of {listener} did not begin with a PROXY header: {error}; let the proxy in \
                 front send one, or leave --proxy-in out"
            )
        });
    }

    /// Puts the header for the backend, if it wants one, before what the client has said. Returns how
    /// long it is.
    pub(crate) fn introduce(&mut self, key: SlotKey) -> u64 {
        let Some(pair) = self.pairs.get_mut(key) else {
            return 0;
        };
        let Some(version) = pair.front.settings.proxy_out else {
            return 0;
        };
        let addresses = pair.origin.as_deref().and_then(|origin| {
            let local = || self.driver.local(&pair.client);
            Some((origin.source, origin.destination.or_else(local)?))
        });
        let mut bytes = Vec::new();
        match version {
            HeaderVersion::V1 => header::write_v1(&Header { addresses }, &mut bytes),
            HeaderVersion::V2 => header::write_v2(&Header { addresses }, &mut bytes),
        }
        let header = bytes.len() as u64;
        if let Some(Held::Bytes(begun, taken)) = pair.up.held.take().map(|held| *held) {
            bytes.extend_from_slice(&begun[taken..]);
        }
        pair.up.held = Some(Box::new(Held::Bytes(bytes, 0)));
        header
    }
}
