//! Frames of a turn: each event is encoded at most once for each transport, into one buffer that
//! all sends use.

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
use crate::parcel::ParcelInFlight;

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
    shared: HashMap<(TurnEvent, Transport), Rc<[u8]>>,
}

/// Name of an event of the current turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TurnEvent(u32);

#[derive(Debug)]
struct Entry {
    /// Index of the event's parcel among those of the turn.
    parcel: u32,
    delivery: u32,
    /// Whether this turn is the last of the delivery.
    is_last: bool,
    counts: Counts,
    /// The event's frames by transport, each by its place among the turn's, from 1.
    frames: [Option<NonZeroU32>; Transport::ALL.len()],
}

impl TurnFrames {
    /// Makes an empty set. `epoch` names this run of the server in event ids.
    pub(crate) fn new(epoch: &str) -> Self {
        Self {
            epoch: epoch.into(),
            parcels: Vec::new(),
            events: Vec::new(),
            frames: Vec::new(),
            bytes: Vec::new(),
            shared: HashMap::new(),
        }
    }

    /// Adds the event of a delivery. `is_last` tells whether the delivery is done with this turn.
    pub(crate) fn add(
        &mut self,
        parcel: &Rc<ParcelInFlight>,
        delivery: u32,
        is_last: bool,
    ) -> TurnEvent {
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
            is_last,
            counts: Counts::default(),
            frames: [None; Transport::ALL.len()],
        });
        TurnEvent(self.events.len() as u32 - 1)
    }

    /// Encodes a frame unless it is encoded already, and returns the range of its bytes for
    /// `framing`.
    pub(crate) fn encode(
        &mut self,
        id: TurnEvent,
        transport: Transport,
        framing: Framing,
    ) -> Range<usize> {
        let entry = &mut self.events[id.0 as usize];
        let place = &mut entry.frames[transport as usize];
        let index = match *place {
            Some(place) => place.get() as usize - 1,
            None => {
                let parcel = &self.parcels[entry.parcel as usize];
                let event = parcel.event(entry.delivery);
                let sequence = parcel.sequence(entry.delivery);
                let event = wire_event(&self.epoch, sequence, event);
                self.frames
                    .push(frame::encode(transport, &event, &mut self.bytes));
                *place = NonZeroU32::new(self.frames.len() as u32);
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
        transport: Transport,
        range: Range<usize>,
    ) -> (Rc<[u8]>, Range<usize>) {
        let place = self.events[id.0 as usize].frames[transport as usize];
        let whole = place.map_or(range.clone(), |place| {
            self.frames[place.get() as usize - 1].whole.clone()
        });
        let bytes = &self.bytes;
        let shared = self
            .shared
            .entry((id, transport))
            .or_insert_with(|| bytes[whole.clone()].into());
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
    /// the parcels that are done.
    pub(crate) fn settle(&mut self) -> usize {
        let mut weight = 0;
        for Entry {
            parcel,
            is_last,
            counts,
            ..
        } in self.events.drain(..)
        {
            weight += self.parcels[parcel as usize].count(counts, is_last);
        }
        self.parcels.clear();
        self.frames.clear();
        self.bytes.clear();
        self.shared.clear();
        weight
    }

    /// Frees working memory that grew in a burst.
    pub(crate) fn trim(&mut self) {
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
