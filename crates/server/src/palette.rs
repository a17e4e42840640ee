//! An event's encoded bytes: encoded at most once in a turn for each transport, into one buffer that
//! all sessions are served from.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::ops::Range;
use std::rc::Rc;

use graph::Id;
use router::{ContentType, Counts, Event, EventType};
use wire::event::{Event as WireEvent, Payload as WirePayload, Subject};
use wire::frame::{self, Frame};
use wire::transport::{Framing, Transport};

use crate::limits::SCRATCH_KEPT_BYTES;
use crate::load::Load;

/// The events of the current turn. Emptied at its end.
#[derive(Debug, Default)]
pub(crate) struct Palette {
    loads: Vec<Rc<Load>>,
    events: Vec<Entry>,
    frames: Vec<Frame>,
    bytes: Vec<u8>,
    /// Frames that somebody's backlog shares, with their bytes.
    kept: HashMap<(FrameId, Transport), Rc<[u8]>>,
}

/// An event of the current turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FrameId(u32);

#[derive(Debug)]
struct Entry {
    /// Which of the turn's loads it is part of.
    load: u32,
    delivery: u32,
    /// This turn is the delivery's last.
    is_last: bool,
    counts: Counts,
    /// The event's frames, each by its place among the turn's, from 1.
    frames: [Option<NonZeroU32>; Transport::ALL.len()],
}

impl Palette {
    /// Adds the event of a delivery; `is_last` when nothing of the delivery will be left.
    pub(crate) fn add(&mut self, load: &Rc<Load>, delivery: u32, is_last: bool) -> FrameId {
        if !self.loads.last().is_some_and(|last| Rc::ptr_eq(last, load)) {
            self.loads.push(Rc::clone(load));
        }
        self.events.push(Entry {
            load: self.loads.len() as u32 - 1,
            delivery,
            is_last,
            counts: Counts::default(),
            frames: [None; Transport::ALL.len()],
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
        let entry = &mut self.events[id.0 as usize];
        let place = &mut entry.frames[transport as usize];
        let index = match *place {
            Some(place) => place.get() as usize - 1,
            None => {
                let load = &self.loads[entry.load as usize];
                let event = load.event(entry.delivery);
                let sequence = load.sequence(entry.delivery);
                let event = wire_event(epoch, sequence, event);
                self.frames
                    .push(frame::encode(transport, &event, &mut self.bytes));
                *place = NonZeroU32::new(self.frames.len() as u32);
                self.frames.len() - 1
            }
        };
        self.frames[index].range(framing)
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
        let place = self.events[id.0 as usize].frames[transport as usize];
        let whole = place.map_or(range.clone(), |place| {
            self.frames[place.get() as usize - 1].whole.clone()
        });
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

    /// What became of the turn's events so far.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for Entry { counts, .. } in &self.events {
            sum.written += counts.written;
            sum.queued += counts.queued;
            sum.shed += counts.shed;
        }
        sum
    }

    /// Ends the turn: counts go to the publishers, and the palette is empty. Returns the weight of the
    /// parcels that are through.
    pub(crate) fn settle(&mut self) -> usize {
        let mut weight = 0;
        for Entry {
            load,
            is_last,
            counts,
            ..
        } in self.events.drain(..)
        {
            weight += self.loads[load as usize].settle(counts, is_last);
        }
        self.loads.clear();
        self.frames.clear();
        self.bytes.clear();
        self.kept.clear();
        weight
    }

    /// Gives working memory that a burst has left behind back to the allocator.
    pub(crate) fn trim(&mut self) {
        if self.bytes.capacity() > SCRATCH_KEPT_BYTES {
            self.bytes = Vec::new();
        }
        if self.events.capacity() * size_of::<Entry>() > SCRATCH_KEPT_BYTES {
            self.events = Vec::new();
            self.frames = Vec::new();
            self.loads = Vec::new();
        }
        if self.kept.capacity() != 0 {
            self.kept = HashMap::new();
        }
    }
}

fn wire_event<'a>(epoch: &'a str, sequence: u64, event: &'a Event) -> WireEvent<'a> {
    WireEvent {
        epoch,
        sequence,
        subject: match &event.subject {
            Id::Integer(number) => Subject::Integer(*number),
            Id::Text(text) => Subject::Text(text),
        },
        kind: event.event_type.as_ref().map(EventType::as_str),
        payload: match event.payload.content_type() {
            ContentType::Json => WirePayload::Json(event.payload.bytes()),
            ContentType::Text => WirePayload::Text(event.payload.bytes()),
            ContentType::Binary => WirePayload::Binary(event.payload.bytes()),
        },
    }
}
