//! An event's encoded bytes: encoded at most once in a turn for each transport, into one buffer that
//! all sessions are served from.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::str;

use graph::Id;
use router::{Counts, Event, Kind, Payload};
use wire::event::{Event as WireEvent, Payload as WirePayload, Subject};
use wire::frame::{self, Frame};
use wire::transport::{Framing, Transport};

use crate::limits::SCRATCH_KEPT_BYTES;
use crate::load::Load;

/// The events of the current turn. Emptied at its end.
#[derive(Debug, Default)]
pub(crate) struct Palette {
    events: Vec<Entry>,
    bytes: Vec<u8>,
    /// Frames that somebody's backlog shares, with their bytes.
    kept: HashMap<(FrameId, Transport), Rc<[u8]>>,
}

/// An event of the current turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FrameId(u32);

#[derive(Debug)]
struct Entry {
    load: Rc<Load>,
    delivery: u32,
    /// This turn is the delivery's last.
    is_last: bool,
    counts: Counts,
    frames: [Option<Frame>; Transport::ALL.len()],
}

/// What a turn has done with its deliveries.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) weight: usize,
    pub(crate) counts: Counts,
}

impl Palette {
    /// Adds the event of a delivery; `is_last` when nothing of the delivery will be left.
    pub(crate) fn add(&mut self, load: &Rc<Load>, delivery: u32, is_last: bool) -> FrameId {
        self.events.push(Entry {
            load: Rc::clone(load),
            delivery,
            is_last,
            counts: Counts::default(),
            frames: [const { None }; Transport::ALL.len()],
        });
        FrameId(self.events.len() as u32 - 1)
    }

    /// Encodes a frame, unless it is already, and returns where its bytes for `framing` are.
    pub(crate) fn encode(
        &mut self,
        id: FrameId,
        transport: Transport,
        framing: Framing,
        epoch: &str,
    ) -> Range<usize> {
        let Entry {
            load,
            delivery,
            frames,
            ..
        } = &mut self.events[id.0 as usize];
        frames[transport as usize]
            .get_or_insert_with(|| {
                let event = load.event(*delivery);
                frame::encode(
                    transport,
                    &wire_event(epoch, load.sequence(*delivery), event),
                    &mut self.bytes,
                )
            })
            .range(framing)
    }

    /// The bytes of the turn's frames.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes at `range` of an encoded frame, to be kept beyond the turn and shared by all who
    /// keep the frame.
    pub(crate) fn keep(
        &mut self,
        id: FrameId,
        transport: Transport,
        range: Range<usize>,
    ) -> (Rc<[u8]>, Range<usize>) {
        let frame = self.events[id.0 as usize].frames[transport as usize].as_ref();
        let whole = frame.map_or(range.clone(), |frame| frame.whole.clone());
        let bytes = &self.bytes;
        let shared = self
            .kept
            .entry((id, transport))
            .or_insert_with(|| bytes[whole.clone()].into());
        (
            Rc::clone(shared),
            range.start - whole.start..range.end - whole.start,
        )
    }

    pub(crate) fn written(&mut self, id: FrameId) {
        self.events[id.0 as usize].counts.written += 1;
    }

    pub(crate) fn queued(&mut self, id: FrameId) {
        self.events[id.0 as usize].counts.queued += 1;
    }

    pub(crate) fn shed(&mut self, id: FrameId) {
        self.events[id.0 as usize].counts.shed += 1;
    }

    /// Ends the turn: counts go to the publishers, and the palette is empty.
    pub(crate) fn settle(&mut self) -> Settled {
        let mut settled = Settled::default();
        for Entry {
            load,
            is_last,
            counts,
            ..
        } in self.events.drain(..)
        {
            settled.counts.written += counts.written;
            settled.counts.queued += counts.queued;
            settled.counts.shed += counts.shed;
            settled.weight += load.settle(counts, is_last);
        }
        self.bytes.clear();
        self.kept.clear();
        settled
    }

    /// Gives working memory that a burst has left behind back to the allocator.
    pub(crate) fn trim(&mut self) {
        if self.bytes.capacity() > SCRATCH_KEPT_BYTES {
            self.bytes = Vec::new();
        }
        if self.events.capacity() * size_of::<Entry>() > SCRATCH_KEPT_BYTES {
            self.events = Vec::new();
        }
        if self.kept.capacity() != 0 {
            self.kept = HashMap::new();
        }
    }
}

fn wire_event<'a>(epoch: &'a str, sequence: u64, event: &'a Event) -> WireEvent<'a> {
    let text = |bytes: &'a [u8]| str::from_utf8(bytes).expect("a payload's kind was checked");
    WireEvent {
        epoch,
        sequence,
        subject: match &event.subject {
            Id::Integer(number) => Subject::Integer(*number),
            Id::Text(text) => Subject::Text(text),
        },
        kind: event.kind.as_ref().map(Kind::as_str),
        payload: match &event.payload {
            Payload::Json(bytes) => WirePayload::Json(text(bytes)),
            Payload::Text(bytes) | Payload::Term { text: bytes, .. } => {
                WirePayload::Text(text(bytes))
            }
            Payload::Binary(bytes) => WirePayload::Binary(bytes),
        },
    }
}
