//! Ends of streams.

use std::borrow::Cow;
use std::collections::VecDeque;

use reactor::{Driver, SlotKey};
use wire::frame::{self, LAST_CHUNK};
use wire::notice::{Expiry, Notice};
use wire::transport::Framing;
use wire::websocket::{CloseCode, push_close};

use super::poll::{Polls, Wake};
use crate::stage::Stage;
use crate::table::{CloseReason, ConnectionTable, Extras, Phase};

/// Last word of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastWord {
    /// None.
    Nothing,
    /// After how many milliseconds to come back.
    Retry(u64),
    /// Why the identity has ended.
    Expired(Expiry),
    /// That the client is kept away, where a transport can say so.
    KeptAway,
}

/// Session that must end.
pub(crate) struct Leaving {
    pub(crate) key: SlotKey,
    pub(crate) word: LastWord,
    pub(crate) reason: CloseReason,
}

impl Stage for VecDeque<Leaving> {
    fn has_work(&self) -> bool {
        !self.is_empty()
    }
}

/// Ends the stream of a session after what it is owed and its last word. A poll that waits is
/// answered instead, in this turn.
pub(crate) fn end_stream<D: Driver>(
    table: &mut ConnectionTable<D>,
    polls: &mut Polls,
    key: SlotKey,
    word: LastWord,
    reason: CloseReason,
) {
    let session = match table.get(key) {
        Some(connection) => match connection.phase {
            Phase::Open(session) => session,
            Phase::Pending => return polls.wake(key, Wake::End(reason)),
            Phase::Head { .. } if connection.extras.has(Extras::LOGIN) => {
                return table.end(key, reason);
            }
            _ => return,
        },
        None => return,
    };
    let mut out = table.scratch();
    let frame = match word {
        LastWord::Nothing | LastWord::KeptAway => None,
        LastWord::Retry(retry) => {
            let transport = session.encoding.transport();
            Some(frame::farewell(transport, retry, &mut out))
        }
        LastWord::Expired(reason) => {
            let notice = Notice::Expired(reason);
            Some(frame::notice(session.encoding, &notice, &mut out))
        }
    };
    let mut start = 0;
    if let Some(frame) = frame {
        let range = frame.range(session.framing);
        start = range.start;
        out.truncate(range.end);
    }
    match session.framing {
        Framing::Chunked => out.extend_from_slice(LAST_CHUNK),
        Framing::Close => {}
        Framing::WebSocket => push_close(close_code(word), &close_text(word), &mut out),
    }
    table.send(key, &out[start..]);
    table.put_back(out);
    table.end(key, reason);
}

/// Returns the code of a close frame: whether the same request may be made again.
const fn close_code(word: LastWord) -> CloseCode {
    match word {
        LastWord::Nothing | LastWord::Retry(_) => CloseCode::GOING_AWAY,
        LastWord::Expired(_) | LastWord::KeptAway => CloseCode::POLICY,
    }
}

/// Returns the reason of a close frame. WebSocket has no other place for a reconnect delay.
fn close_text(word: LastWord) -> Cow<'static, str> {
    match word {
        LastWord::Nothing => "the operator has closed the session".into(),
        LastWord::KeptAway => "the client is kept away for a while".into(),
        LastWord::Retry(retry) => format!("{{\"retry\":{retry}}}").into(),
        LastWord::Expired(expiry) => expiry.text().into(),
    }
}
