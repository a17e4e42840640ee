//! Stage 2: the PROXY header that a client sends first when another proxy forwards it.
//!
//! An incomplete header is kept in the buffer for the backend's pending bytes. Bytes that follow
//! the header stay there.

use reactor::{RateLimitedWarnings, Received, RelayDriver, SlotKey, Tick};
use wire::proxy_header::{self, HeaderError};

use crate::tcp::close_reason::CloseReason;
use crate::tcp::effect::Effect;
use crate::tcp::frontend::Frontend;
use crate::tcp::metrics::Metric;
use crate::tcp::pair::{Pair, Pending};
use crate::tcp::pair_table::PairTable;

/// Receives from a client until its header is complete or nothing is left to receive. Uses `block`
/// as scratch space.
pub(crate) fn receive<D: RelayDriver>(
    table: &mut PairTable<D>,
    key: SlotKey,
    block: &mut [u8],
    warnings: &RateLimitedWarnings,
) -> Effect {
    let Some(entry) = table.entry(key) else {
        return Effect::Wait;
    };
    loop {
        entry.counters.add(Metric::Receives, 1);
        match entry.driver.recv(&entry.pair.client, block) {
            Received::Bytes(count) => {
                entry.counters.add(Metric::BytesRead, count as u64);
                match append(entry.pair, &block[..count]) {
                    Ok(false) => {}
                    Ok(true) => return Effect::CountSource,
                    Err(error) => {
                        warn(warnings, entry.now, &entry.pair.frontend, error);
                        return Effect::Close(CloseReason::Header);
                    }
                }
            }
            Received::Blocked => return Effect::Wait,
            Received::Ended | Received::Failed(_) => return Effect::Close(CloseReason::Header),
        }
    }
}

/// Appends received bytes to the header. Returns whether it is complete.
fn append<S, P>(pair: &mut Pair<S, P>, bytes: &[u8]) -> Result<bool, HeaderError> {
    let mut begun = match pair.up.pending.take().map(|pending| *pending) {
        Some(Pending::Bytes(begun, _)) => begun,
        _ => Vec::new(),
    };
    begun.extend_from_slice(bytes);
    let Some((header, consumed)) = proxy_header::parse(&begun)? else {
        pair.up.pending = Some(Box::new(Pending::Bytes(begun, 0)));
        return Ok(false);
    };
    if let (Some((source, destination)), Some(info)) =
        (header.addresses, pair.client_info.as_deref_mut())
    {
        info.source = source;
        info.destination = Some(destination);
    }
    if consumed < begun.len() {
        pair.up.pending = Some(Box::new(Pending::Bytes(begun, consumed)));
    }
    // More bytes may follow.
    pair.up.unread = true;
    Ok(true)
}

fn warn(warnings: &RateLimitedWarnings, now: Tick, frontend: &Frontend, error: HeaderError) {
    let listener = frontend.address;
    warnings.warn(now, "header", &listener.to_string(), || {
        format!(
            "a client of {listener} did not begin with a PROXY header: {error}; configure the \
             proxy in front of this one to send a header, or leave --proxy-in out"
        )
    });
}
