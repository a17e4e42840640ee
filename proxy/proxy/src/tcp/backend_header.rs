//! The PROXY header that is sent to a backend before the client's bytes.

use reactor::{RelayDriver, SlotKey};
use wire::proxy_header::{self, Header};

use crate::tcp::pair::Pending;
use crate::tcp::pair_table::PairTable;
use crate::tcp::settings::HeaderVersion;

/// Puts the header before the client's bytes, if the listener is set to send one. Returns its
/// length.
pub(crate) fn prepend<D: RelayDriver>(table: &mut PairTable<D>, key: SlotKey) -> u64 {
    let Some(entry) = table.entry(key) else {
        return 0;
    };
    let pair = entry.pair;
    let Some(version) = pair.frontend.settings.proxy_out else {
        return 0;
    };
    let addresses = pair.client_info.as_deref().and_then(|info| {
        let local = || entry.driver.local(&pair.client);
        Some((info.source, info.destination.or_else(local)?))
    });
    let mut bytes = Vec::new();
    match version {
        HeaderVersion::V1 => proxy_header::write_v1(&Header { addresses }, &mut bytes),
        HeaderVersion::V2 => proxy_header::write_v2(&Header { addresses }, &mut bytes),
    }
    let length = bytes.len() as u64;
    if let Some(Pending::Bytes(begun, taken)) = pair.up.pending.take().map(|pending| *pending) {
        bytes.extend_from_slice(&begun[taken..]);
    }
    pair.up.pending = Some(Box::new(Pending::Bytes(bytes, 0)));
    length
}

/// Subtracts the sent header from the client's bytes: it is not part of a request and did not come
/// from the client.
pub(crate) fn discount<D: RelayDriver>(table: &mut PairTable<D>, key: SlotKey, length: u64) {
    if length > 0
        && let Some(pair) = table.get(key)
    {
        pair.bytes_up = pair.bytes_up.saturating_sub(length);
        if pair.bytes_up == 0 {
            pair.request_micros = 0;
        }
    }
}
