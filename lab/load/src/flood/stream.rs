//! State of one client between reads, in fewer than 200 bytes, and the parsing of its bytes.

use std::os::fd::OwnedFd;

use super::order::{Check, Order};
use super::recovery::Record;
use super::tally::{Counts, Times};
use client::decode::count::{Counter, Noticed};
use client::decode::framing::{Framing, Piece};
use client::decode::head::Head;
use client::decode::websocket;
use client::decode::{Malformed, Transport};
use machine::clock::realtime_nanos;

/// Bytes for one idle client, with its buffers and the check of its order. A million clients take
/// less than 200 MB.
const STREAM_BYTES_MAX: usize = 192;

const _: () = assert!(size_of::<Stream>() <= STREAM_BYTES_MAX);

/// Bytes of an error body that are awaited, to report its first line.
const REFUSAL_MAX: usize = 1024;

/// One client. Owned by its thread from connect to close.
#[derive(Debug)]
pub(super) enum Stream {
    /// Not connected.
    Closed,
    /// The TCP handshake is under way; the request waits.
    Connecting(OwnedFd),
    /// This many bytes of the request are sent.
    Trickling(OwnedFd, u16),
    /// The request is sent. The bytes are those of an incomplete head, which is rare.
    Head(OwnedFd, Vec<u8>),
    /// The head has come; events follow.
    Body(OwnedFd, Body),
}

/// Parser and checks of an open stream.
#[derive(Debug)]
pub(super) struct Body {
    wire: Wire,
    counter: Counter,
    order: Order,
}

#[derive(Debug)]
enum Wire {
    Http(Framing),
    WebSocket(websocket::Reader),
}

/// Result of parsing a head.
#[derive(Debug)]
pub(super) enum Heading {
    /// The head is incomplete; the caller keeps its bytes.
    Partial,
    /// The stream is open; the number is the length of the head.
    Open(Body, usize),
    /// The answer opens no stream: status and first line of its body.
    Refused(u16, String),
}

/// State of a stream after a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The stream goes on.
    More,
    /// The server has ended the stream.
    Ended,
    /// The server has closed the WebSocket with this code.
    Closed(u16),
}

/// Reading context of a thread: settings and counters.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) transport: Transport,
    pub(super) check: Check,
    pub(super) counts: Counts,
    /// Times measured in this turn.
    pub(super) times: Times,
    /// Bytes to send back on the stream being read.
    pub(super) answer: Vec<u8>,
}

/// Parses the head at the start of `bytes`. `key` returns the client's WebSocket key. With `ended`
/// the connection is closed, so an incomplete error body is taken as it is.
pub(super) fn heading(
    bytes: &[u8],
    transport: Transport,
    key: impl FnOnce() -> String,
    ended: bool,
) -> Result<Heading, Malformed> {
    let Some((head, used)) = Head::parse(bytes)? else {
        return Ok(Heading::Partial);
    };
    let wire = match (transport, head.status) {
        (Transport::WebSocket, 101) => {
            websocket::check(&head, &key())?;
            Wire::WebSocket(websocket::Reader::default())
        }
        (Transport::WebSocket, _) => return refusal(&head, &bytes[used..], ended),
        (_, 200) => Wire::Http(head.framing()?),
        _ => return refusal(&head, &bytes[used..], ended),
    };
    let body = Body {
        wire,
        counter: Counter::default(),
        order: Order::default(),
    };
    Ok(Heading::Open(body, used))
}

/// Returns the status and the first line of an error body, once it has arrived.
fn refusal(head: &Head<'_>, mut input: &[u8], ended: bool) -> Result<Heading, Malformed> {
    let (mut framing, mut body) = (head.framing()?, Vec::new());
    let mut complete = ended || framing.is_complete();
    while let Some(piece) = framing.next(&mut input)? {
        match piece {
            Piece::Bytes(bytes) => body.extend_from_slice(bytes),
            Piece::ChunkEnd => {}
            Piece::End => {
                complete = true;
                break;
            }
        }
    }
    let has_line = body.trim_ascii_start().contains(&b'\n');
    if !complete && !has_line && body.len() < REFUSAL_MAX {
        return Ok(Heading::Partial);
    }
    let text = String::from_utf8_lossy(&body);
    let line = text.trim().lines().next().unwrap_or("").trim();
    Ok(Heading::Refused(head.status, line.to_owned()))
}

impl Reading {
    #[inline]
    fn notice(
        &mut self,
        what: Noticed,
        order: &mut Order,
        record: Option<&mut Record>,
        now: &mut u64,
    ) {
        let (stamp, id) = match what {
            Noticed::Event { stamp, id } => (stamp, id),
            Noticed::Heartbeat => {
                self.counts.heartbeats += 1;
                return;
            }
            Noticed::Cursor(id) => {
                // With Server-Sent Events a cursor comes in a comment, which was counted already.
                self.counts.heartbeats += u64::from(self.transport != Transport::Sse);
                if let Some(record) = record {
                    record.cursor(id);
                }
                return;
            }
            Noticed::Reset(reason) => {
                self.counts.resets.count(reason);
                if let Some(record) = record {
                    record.excuse(Some(reason));
                }
                return;
            }
            Noticed::Gap => {
                self.counts.gaps += 1;
                if let Some(record) = record {
                    record.excuse(None);
                }
                return;
            }
        };
        let reconnects = record.is_some();
        if let Some(record) = record {
            let numbers = self.check.numbers.then_some(&mut self.counts.numbers);
            if !record.event(id, stamp, &mut self.counts.recovery, numbers) {
                return;
            }
        }
        self.counts.events += 1;
        if let Some(id) = id {
            order.id(self.check.ids, id, &mut self.counts.ids);
        }
        let Some(stamp) = stamp else {
            return;
        };
        if self.check.numbers && stamp.number > 0 && !reconnects {
            order.number(stamp, &mut self.counts.numbers);
        }
        if *now == 0 {
            *now = realtime_nanos();
        }
        self.counts.ahead += u64::from(stamp.due > *now);
        self.times.latencies.push(now.saturating_sub(stamp.due));
    }
}

impl Body {
    /// Parses bytes of the stream. `record` is given if clients reconnect.
    #[inline]
    pub(super) fn read(
        &mut self,
        reading: &mut Reading,
        mut record: Option<&mut Record>,
        mut input: &[u8],
    ) -> Result<Progress, Malformed> {
        let transport = reading.transport;
        // The clock is read at the first stamp only, as all bytes of a read arrive together.
        let mut now = 0;
        let (counter, order) = (&mut self.counter, &mut self.order);
        let mut answer = std::mem::take(&mut reading.answer);
        let mut notice = |what| reading.notice(what, order, record.as_deref_mut(), &mut now);
        let mut chunks = 0;
        let progress = match &mut self.wire {
            Wire::Http(framing) => loop {
                let Some(piece) = framing.next(&mut input)? else {
                    break Progress::More;
                };
                match piece {
                    Piece::Bytes(bytes) => {
                        counter.bytes(transport, bytes, &mut notice);
                        chunks += u64::from(!framing.is_chunked());
                    }
                    Piece::ChunkEnd => {
                        counter.chunk_end(transport, &mut notice);
                        chunks += 1;
                    }
                    Piece::End => break Progress::Ended,
                }
            },
            Wire::WebSocket(reader) => loop {
                let Some(piece) = reader.next(&mut input)? else {
                    break Progress::More;
                };
                match piece {
                    websocket::Piece::Bytes(bytes) => counter.bytes(transport, bytes, &mut notice),
                    websocket::Piece::MessageEnd => {
                        counter.message_end(&mut notice);
                        chunks += 1;
                    }
                    websocket::Piece::Ping => {
                        notice(Noticed::Heartbeat);
                        reader.answer_ping(&mut answer);
                    }
                    websocket::Piece::Pong => notice(Noticed::Heartbeat),
                    websocket::Piece::Close(code) => {
                        reader.answer_close(&mut answer);
                        break Progress::Closed(code);
                    }
                }
            },
        };
        reading.answer = answer;
        reading.counts.chunks += chunks;
        Ok(progress)
    }

    /// Whether the end of the connection is a regular end of the stream.
    pub(super) fn may_end_here(&self) -> bool {
        match &self.wire {
            Wire::Http(framing) => framing.may_end_here(),
            Wire::WebSocket(_) => false,
        }
    }
}
