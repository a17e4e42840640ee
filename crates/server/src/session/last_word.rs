//! Ends of streams.

use reactor::{Driver, SlotKey};
use wire::frame::{self, Expiry, LAST_CHUNK};
use wire::transport::Framing;

use crate::table::{CloseReason, ConnectionTable, Phase};

/// Last word of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastWord {
    /// None.
    Nothing,
    /// After how many milliseconds to come back.
    Retry(u64),
    /// Why the identity has ended.
    Expired(Expiry),
}

/// Ends the stream of a session after what it is owed and its last word.
pub(crate) fn end_stream<D: Driver>(
    table: &mut ConnectionTable<D>,
    key: SlotKey,
    word: LastWord,
    reason: CloseReason,
) {
    let Some(Phase::Open(session)) = table.get(key).map(|connection| connection.phase) else {
        return;
    };
    let mut out = table.scratch();
    let frame = match word {
        LastWord::Nothing => None,
        LastWord::Retry(retry) => Some(frame::farewell(session.transport, retry, &mut out)),
        LastWord::Expired(reason) => Some(frame::expired(session.transport, reason, &mut out)),
    };
    let mut start = 0;
    if let Some(frame) = frame {
        let range = frame.range(session.framing);
        start = range.start;
        out.truncate(range.end);
    }
    if session.framing == Framing::Chunked {
        out.extend_from_slice(LAST_CHUNK);
    }
    table.send(key, &out[start..]);
    table.put_back(out);
    table.end(key, reason);
}
