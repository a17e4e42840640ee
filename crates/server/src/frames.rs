//! Frames of a turn: each event is encoded at most once for each encoding, into one buffer that all
//! sends use.

/// Frames of one event by encoding.
mod lanes;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use graph::Id;
use router::{ContentType, Counts, Event, EventType};
use wire::encoding::Encoding;
use wire::event::{Event as WireEvent, Payload as WirePayload, Subject};
use wire::frame::{self, Frame};
use wire::transport::Framing;

use crate::limits::SCRATCH_KEPT_BYTES;
use crate::parcel::ParcelInFlight;
use crate::stage::Stage;
use crate::table::{FrameMemory, SharedFrame};
pub(crate) use lanes::TurnEvent;
use lanes::{LANES, LanePlaces, Lanes};

/// Events of the current turn and their frames. Emptied at the end of the turn.
#[derive(Debug)]
pub(crate) struct TurnFrames {
    /// Name of this run of the server in event ids.
    epoch: Box<str>,
    parcels: Vec<Rc<ParcelInFlight>>,
    events: Vec<Entry>,
    frames: Vec<Frame>,
    bytes: Vec<u8>,
    /// Frames that backlogs share, with their bytes.
    shared: HashMap<(TurnEvent, Encoding), Rc<SharedFrame>>,
    /// Hash of subjects and types, which clients choose: the key is random.
    topics: RandomState,
    lanes: Lanes,
    /// Whether ids are cursors: there is a history.
    has_cursors: bool,
    /// Position of the oldest delivery that the turn's small ones may overtake.
    overtaken: Option<u64>,
    /// Number of the turn's events that are small deliveries: the first ones.
    small: u32,
}

#[derive(Debug)]
struct Entry {
    /// Index of the event's parcel among those of the turn.
    parcel: u32,
    delivery: u32,
    /// Whether this turn is the last of the delivery.
    is_last: bool,
    counts: Counts,
    /// The event's frames by lane, each by its place among the turn's.
    frames: LanePlaces,
}

/// Most bytes of an entry: a turn reads one for each recipient.
const ENTRY_BYTES_MAX: usize = 56;
const _: () = assert!(size_of::<Entry>() <= ENTRY_BYTES_MAX);

impl Stage for TurnFrames {
    fn trim(&mut self) {
        if self.bytes.capacity() > SCRATCH_KEPT_BYTES {
            self.bytes = Vec::new();
        }
        if self.events.capacity() * size_of::<Entry>() > SCRATCH_KEPT_BYTES {
            self.events = Vec::new();
            self.frames = Vec::new();
            self.parcels = Vec::new();
        }
        if self.shared.capacity() != 0 {
            self.shared = HashMap::new();
        }
        self.lanes.trim();
    }
}

impl TurnFrames {
    /// Makes an empty set. `epoch` names this run of the server in event ids.
    pub(crate) fn new(epoch: &str, has_cursors: bool) -> Self {
        Self {
            epoch: epoch.into(),
            parcels: Vec::new(),
            events: Vec::new(),
            frames: Vec::new(),
            bytes: Vec::new(),
            shared: HashMap::new(),
            topics: RandomState::new(),
            lanes: Lanes::default(),
            has_cursors,
            overtaken: None,
            small: 0,
        }
    }

    /// Returns whether ids are cursors: there is a history.
    pub(crate) const fn has_cursors(&self) -> bool {
        self.has_cursors
    }

    /// Begins the turn's small deliveries, which overtake the one at this position: a client that
    /// has got a later event may not have got that one.
    pub(crate) const fn overtake(&mut self, oldest: Option<u64>) {
        self.overtaken = oldest;
    }

    /// Ends the turn's small deliveries. Large ones overtake nothing: whoever is sent one has been
    /// sent all before it.
    pub(crate) const fn end_small(&mut self) {
        self.small = self.events.len() as u32;
    }

    /// Returns the position of an event.
    pub(crate) fn position(&self, id: TurnEvent) -> u64 {
        let entry = &self.events[id.0 as usize];
        self.parcels[entry.parcel as usize].position(entry.delivery)
    }

    /// Returns whether the history stores an event.
    pub(crate) fn is_stored(&self, id: TurnEvent) -> bool {
        let entry = &self.events[id.0 as usize];
        let parcel = &self.parcels[entry.parcel as usize];
        parcel.delivery(entry.delivery).is_stored
    }

    /// Returns whether an event has no bytes in an encoding.
    pub(crate) fn is_invisible(&self, id: TurnEvent, encoding: Encoding) -> bool {
        let entry = &self.events[id.0 as usize];
        let parcel = &self.parcels[entry.parcel as usize];
        encoding == Encoding::TestPlain && parcel.event(entry.delivery).payload.bytes().is_empty()
    }

    /// Adds the event of a delivery.
    pub(crate) fn add(&mut self, parcel: &Rc<ParcelInFlight>, delivery: u32) -> TurnEvent {
        if !self
            .parcels
            .last()
            .is_some_and(|last| Rc::ptr_eq(last, parcel))
        {
            self.parcels.push(Rc::clone(parcel));
        }
        self.events.push(Entry {
            parcel: self.parcels.len() as u32 - 1,
            delivery,
            is_last: false,
            counts: Counts::default(),
            frames: [None; LANES],
        });
        TurnEvent(self.events.len() as u32 - 1)
    }

    /// Notes that the delivery of an event is done with this turn. Its deferred sessions count as
    /// queued: they read it from the history.
    pub(crate) fn end_delivery(&mut self, id: TurnEvent) {
        let entry = &mut self.events[id.0 as usize];
        let delivery = self.parcels[entry.parcel as usize].delivery(entry.delivery);
        entry.is_last = true;
        entry.counts.queued += u64::from(delivery.deferred);
    }

    /// Encodes a frame unless it is encoded already, and returns the range of its bytes for
    /// `framing`.
    pub(crate) fn encode(
        &mut self,
        id: TurnEvent,
        encoding: Encoding,
        framing: Framing,
    ) -> Range<usize> {
        let entry = &mut self.events[id.0 as usize];
        let index = match self.lanes.get(&entry.frames, id, encoding) {
            Some(place) => place.get() as usize - 1,
            None => {
                let parcel = &self.parcels[entry.parcel as usize];
                let event = parcel.event(entry.delivery);
                let position = parcel.position(entry.delivery);
                let complete = match self.overtaken {
                    Some(oldest) if id.0 < self.small => {
                        debug_assert!(oldest > 0, "positions count from 1");
                        position.min(oldest - 1)
                    }
                    _ => position,
                };
                let kind = event.event_type.as_ref().map(EventType::as_str);
                let Event {
                    subject, payload, ..
                } = event;
                let (content_type, payload) = (payload.content_type(), payload.bytes());
                let at = (&*self.epoch, position);
                let event = WireEvent {
                    complete,
                    ..wire_event(at, subject, kind, content_type, payload)
                };
                self.frames
                    .push(frame::encode(encoding, &event, &mut self.bytes));
                if let Some(place) = NonZeroU32::new(self.frames.len() as u32) {
                    self.lanes.set(&mut entry.frames, id, encoding, place);
                }
                self.frames.len() - 1
            }
        };
        self.frames[index].range(framing)
    }

    /// Returns the bytes of the turn's frames.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes at `range` of an encoded frame, shared by the backlogs that keep the frame
    /// beyond the turn.
    pub(crate) fn share(
        &mut self,
        id: TurnEvent,
        encoding: Encoding,
        range: Range<usize>,
        memory: &FrameMemory,
    ) -> (Rc<SharedFrame>, Range<usize>) {
        let places = &self.events[id.0 as usize].frames;
        let place = self.lanes.get(places, id, encoding);
        let whole = place.map_or(range.clone(), |place| {
            self.frames[place.get() as usize - 1].whole.clone()
        });
        debug_assert!(whole.start <= range.start && range.end <= whole.end);
        let entry = &self.events[id.0 as usize];
        let event = self.parcels[entry.parcel as usize].event(entry.delivery);
        let position = self.parcels[entry.parcel as usize].position(entry.delivery);
        let is_stored = self.is_stored(id);
        let (bytes, topics) = (&self.bytes, &self.topics);
        let shared = self.shared.entry((id, encoding)).or_insert_with(|| {
            let event_type = event.event_type.as_ref().map(EventType::as_str);
            let topic = topics.hash_one((&event.subject, event_type));
            memory.share_event(&bytes[whole.clone()], position, topic, is_stored)
        });
        (
            Rc::clone(shared),
            range.start - whole.start..range.end - whole.start,
        )
    }

    pub(crate) fn count_written(&mut self, id: TurnEvent) {
        self.events[id.0 as usize].counts.written += 1;
    }

    pub(crate) fn count_queued(&mut self, id: TurnEvent) {
        self.events[id.0 as usize].counts.queued += 1;
    }

    pub(crate) fn count_shed(&mut self, id: TurnEvent) {
        self.events[id.0 as usize].counts.shed += 1;
    }

    /// Returns the results of the turn's events so far.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for Entry { counts, .. } in &self.events {
            sum.written += counts.written;
            sum.queued += counts.queued;
            sum.shed += counts.shed;
        }
        sum
    }

    /// Ends the turn: settles deliveries and removes all events and frames. Returns the weight of
    /// the parcels that are done, and adds to `done` when each of them was accepted.
    pub(crate) fn settle(&mut self, done: &mut Vec<Duration>) -> usize {
        let mut weight = 0;
        for Entry {
            parcel,
            is_last,
            counts,
            ..
        } in self.events.drain(..)
        {
            let parcel = &self.parcels[parcel as usize];
            let released = parcel.count(counts, is_last);
            if released != 0 {
                done.push(parcel.accepted());
            }
            weight += released;
        }
        self.parcels.clear();
        self.frames.clear();
        self.bytes.clear();
        self.shared.clear();
        self.lanes.end_turn();
        self.overtaken = None;
        weight
    }
}

/// Returns an id as the encoders take it.
pub(crate) fn wire_subject(id: &Id) -> Subject<'_> {
    match id {
        Id::Integer(number) => Subject::Integer(*number),
        Id::Text(text) => Subject::Text(text),
    }
}

/// Returns an event at a position as the encoders take it.
pub(crate) fn wire_event<'a>(
    (epoch, position): (&'a str, u64),
    subject: &'a Id,
    kind: Option<&'a str>,
    content_type: ContentType,
    payload: &'a [u8],
) -> WireEvent<'a> {
    WireEvent {
        epoch,
        position,
        complete: position,
        subject: wire_subject(subject),
        kind,
        payload: match content_type {
            ContentType::Json => WirePayload::Json(payload),
            ContentType::Text => WirePayload::Text(payload),
            ContentType::Binary => WirePayload::Binary(payload),
        },
    }
}

/// Appends a frame without the room that was reserved before it.
pub(crate) fn push(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>) -> Range<usize>) {
    let start = out.len();
    let range = encode(out);
    out.copy_within(range.clone(), start);
    out.truncate(start + range.len());
}
