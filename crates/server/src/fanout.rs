//! Fan-out: deliveries to frames for sessions.
//!
//! All frames for a session in one turn are gathered first, and sent in one system call.
//!
//! Invariants of order. Together they say that every session gets the events of a subject in the
//! order in which they were published. Tests that hold them name their numbers.
//!
//! 1. Deliveries are numbered as the mailbox holds them, which is the order of their
//!    positions.
//! 2. Small deliveries are served in the order of their numbers.
//! 3. A delivery about a subject of which a large delivery is under way is queued behind the large
//!    ones, whatever its size.
//! 4. A large delivery joins the sweep only when the small ones before it are done.
//! 5. The sweep is at each recipient of a delivery once, and serves several deliveries there in the
//!    order of their numbers.
//! 6. What a session is owed in a turn leaves in the order in which it came to be owed, and behind
//!    its backlog.

mod sweep;

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::ops::Range;
use std::rc::Rc;

use graph::Id;
use reactor::{Driver, SlotKey};
use router::Parcel;

use crate::frames::{TurnEvent, TurnFrames};
use crate::limits::{Limits, PAYLOAD_BYTES_PER_TURN, SCRATCH_KEPT_BYTES};
use crate::open_session::Session;
use crate::parcel::ParcelInFlight;
use crate::replay::LiveEvent;
use crate::session::{Sessions, Wake};
use crate::stage::Stage;
use crate::table::{Connection, ConnectionTable, Extras, OwedFrame, OwedPlace, Phase};
use sweep::{Swept, place_of};

/// Deliveries in flight in a worker, and their frames of the current turn.
#[derive(Debug, Default)]
pub(crate) struct Fanout {
    small: VecDeque<Run>,
    /// Large deliveries that wait to join the sweep.
    waiting: VecDeque<Queued>,
    sweep: Vec<Swept>,
    /// The slot that the sweep visits next.
    slot: u32,
    /// Deliveries ever taken.
    taken: u64,
    /// Subjects of large deliveries, with how many of these there are.
    subjects: HashMap<Id, u32>,
    owed: OwedFrames,
    /// Working memory: the recipients of small deliveries.
    aimed: Vec<(SlotKey, TurnEvent)>,
    batch: Batch,
}

/// Consecutive small deliveries of one parcel.
#[derive(Debug)]
struct Run {
    /// Number of the first delivery.
    number: u64,
    parcel: Rc<ParcelInFlight>,
    /// Indexes of the deliveries in the parcel; never empty.
    deliveries: Range<u32>,
}

/// A large delivery.
#[derive(Debug)]
struct Queued {
    number: u64,
    parcel: Rc<ParcelInFlight>,
    delivery: u32,
}

/// Frames owed in the current turn, by session.
#[derive(Debug, Default)]
struct OwedFrames {
    /// The frames of a session form a ring.
    links: Vec<Link>,
    /// Sessions with frames, in the order of their first frame.
    sessions: Vec<OwedSession>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    event: TurnEvent,
    /// The next frame of the same session; the first after the last.
    next: u32,
}

/// Session with frames in this turn.
#[derive(Debug, Clone, Copy)]
struct OwedSession {
    key: SlotKey,
    session: Session,
    /// The session's last frame.
    last: u32,
}

/// Working memory: the encoded frames of a group of sessions, one session after the other.
#[derive(Debug, Default)]
struct Batch {
    frames: Vec<OwedFrame>,
    /// Where the frames of each session end.
    ends: Vec<usize>,
}

impl OwedFrames {
    /// Appends a frame to a session's ring. `place` is the index that the session's record keeps.
    fn push(
        &mut self,
        key: SlotKey,
        session: Session,
        place: &mut Option<OwedPlace>,
        event: TurnEvent,
    ) {
        let last = self.links.len() as u32;
        let next = match *place {
            None => {
                self.sessions.push(OwedSession { key, session, last });
                *place = OwedPlace::new(self.sessions.len() as u32);
                last
            }
            Some(place) => {
                let session = &mut self.sessions[place.get() as usize - 1];
                debug_assert_eq!(session.key, key, "a record knows its own place");
                let before = mem::replace(&mut session.last, last);
                mem::replace(&mut self.links[before as usize].next, last)
            }
        };
        self.links.push(Link { event, next });
    }
}

impl Batch {
    /// Encodes the frames of a group of sessions.
    fn fill(&mut self, group: &[OwedSession], links: &[Link], frames: &mut TurnFrames) {
        self.frames.clear();
        self.ends.clear();
        for &OwedSession { session, last, .. } in group {
            let mut at = last;
            loop {
                at = links[at as usize].next;
                let event = links[at as usize].event;
                let range = frames.encode(event, session.encoding, session.framing);
                self.frames.push(OwedFrame { event, range });
                if at == last {
                    break;
                }
            }
            self.ends.push(self.frames.len());
        }
    }
}

impl Stage for Fanout {
    fn has_work(&self) -> bool {
        !self.small.is_empty() || !self.waiting.is_empty() || !self.sweep.is_empty()
    }

    fn trim(&mut self) {
        if self.owed.links.capacity() * size_of::<Link>() > SCRATCH_KEPT_BYTES {
            self.owed = OwedFrames::default();
            self.aimed = Vec::new();
            self.batch = Batch::default();
        }
        if !self.has_work() {
            self.small.shrink_to(SCRATCH_KEPT_BYTES / size_of::<Run>());
            self.waiting
                .shrink_to(SCRATCH_KEPT_BYTES / size_of::<Queued>());
            self.subjects.shrink_to(0);
        }
    }
}

impl Fanout {
    /// Queues a parcel's deliveries.
    pub(crate) fn add(&mut self, parcel: Parcel, limits: &Limits) {
        let parcel = Rc::new(ParcelInFlight::new(parcel));
        for (delivery, index) in parcel.deliveries().iter().zip(0..) {
            let number = self.taken;
            self.taken += 1;
            let is_large = delivery.recipients.as_slice().len() > limits.small_delivery_recipients;
            let subject = &parcel.event(index).subject;
            if is_large || (!self.subjects.is_empty() && self.subjects.contains_key(subject)) {
                *self.subjects.entry(subject.clone()).or_default() += 1;
                self.waiting.push_back(Queued {
                    number,
                    parcel: Rc::clone(&parcel),
                    delivery: index,
                });
                continue;
            }
            match self.small.back_mut() {
                Some(run) if run.deliveries.end == index && Rc::ptr_eq(&run.parcel, &parcel) => {
                    run.deliveries.end += 1;
                }
                _ => self.small.push_back(Run {
                    number,
                    parcel: Rc::clone(&parcel),
                    deliveries: index..index + 1,
                }),
            }
        }
    }

    /// Deliveries ever taken.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the number of the oldest delivery in flight.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let small = self.small.front().map(|run| run.number);
        let waiting = self.waiting.front().map(|queued| queued.number);
        let swept = self.sweep.iter().map(|swept| swept.number);
        small.into_iter().chain(waiting).chain(swept).min()
    }

    /// Returns the position of the oldest delivery in flight.
    pub(crate) fn oldest_position(&self) -> Option<u64> {
        let run = self.small.front();
        let small = run.map(|run| run.parcel.position(run.deliveries.start));
        small.into_iter().chain(self.oldest_large()).min()
    }

    /// Returns the position of the oldest delivery in flight that a session may still get.
    pub(crate) fn oldest_for(&self, key: SlotKey) -> Option<u64> {
        let run = self.small.front();
        let small = run.map(|run| run.parcel.position(run.deliveries.start));
        let waiting = self.waiting.iter().find(|queued| {
            let recipients = &queued.parcel.delivery(queued.delivery).recipients;
            place_of(recipients.as_slice(), key).is_some()
        });
        let waiting = waiting.map(|queued| queued.parcel.position(queued.delivery));
        let swept = self.sweep.iter().filter(|swept| swept.awaits(key));
        let swept = swept.map(|swept| swept.parcel.position(swept.delivery));
        small.into_iter().chain(waiting).chain(swept).min()
    }

    /// Returns the position of the oldest large delivery in flight, which small ones may overtake.
    fn oldest_large(&self) -> Option<u64> {
        let waiting = self.waiting.front();
        let waiting = waiting.map(|queued| queued.parcel.position(queued.delivery));
        let swept = self.sweep.iter();
        let swept = swept.map(|swept| swept.parcel.position(swept.delivery));
        waiting.into_iter().chain(swept).min()
    }

    /// Returns whether a large delivery is in flight.
    pub(crate) const fn is_sweeping(&self) -> bool {
        !self.sweep.is_empty()
    }

    /// Serves as many small deliveries as one turn may, and a slice of the large ones. Counts the
    /// results in `frames`.
    pub(crate) fn deliver<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        sessions: &mut Sessions,
        frames: &mut TurnFrames,
    ) {
        if !self.has_work() {
            return;
        }
        if frames.has_cursors() {
            frames.overtake(self.oldest_large());
        }
        self.owe_small(table, sessions, frames);
        frames.end_small();
        self.join_sweep(table.limits);
        self.owe_large(table, sessions, frames);
        sessions.replays.tell_unstored(table);
        self.flush(table, frames);
    }

    fn owe_small<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        sessions: &mut Sessions,
        frames: &mut TurnFrames,
    ) {
        let (mut recipients, mut bytes) = (0, 0);
        while recipients < table.limits.small_recipients_per_turn
            && bytes < PAYLOAD_BYTES_PER_TURN
            && let Some(run) = self.small.front_mut()
        {
            let delivery = run.deliveries.start;
            bytes += run.parcel.event(delivery).payload.bytes().len();
            let event = frames.add(&run.parcel, delivery);
            frames.end_delivery(event);
            let slice = run.parcel.delivery(delivery).recipients.as_slice();
            recipients += slice.len().max(1);
            self.aimed.extend(slice.iter().map(|&key| (key, event)));
            run.number += 1;
            run.deliveries.start += 1;
            if run.deliveries.is_empty() {
                self.small.pop_front();
            }
        }
        // A separate loop, so that the processor fetches several records at a time.
        for (key, event) in self.aimed.drain(..) {
            owe(&mut self.owed, table, sessions, frames, key, event);
        }
    }

    /// Serves a slice of the large deliveries: as many sessions as one turn may send to. Recipients
    /// that are sent nothing, and those of several deliveries, cost far less than a send.
    fn owe_large<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        sessions: &mut Sessions,
        frames: &mut TurnFrames,
    ) {
        let sessions_max = self.owed.sessions.len() + table.limits.large_recipients_per_turn;
        let mut visits = 0;
        while self.is_sweeping()
            && self.owed.sessions.len() < sessions_max
            && visits < table.limits.large_visits_per_turn
        {
            let end = self.sweep_end(table.limits);
            for swept in &mut self.sweep {
                let slice = swept.take(end);
                if slice.is_empty() {
                    continue;
                }
                let event = *swept
                    .event
                    .get_or_insert_with(|| frames.add(&swept.parcel, swept.delivery));
                visits += slice.len();
                for &key in &swept.recipients()[slice] {
                    owe(&mut self.owed, table, sessions, frames, key, event);
                }
            }
            self.slot = end;
            self.leave_sweep(frames);
        }
        for swept in &mut self.sweep {
            swept.event = None;
        }
    }

    /// Sends the frames of all sessions, group by group.
    fn flush<D: Driver>(&mut self, table: &mut ConnectionTable<D>, frames: &mut TurnFrames) {
        for group in self.owed.sessions.chunks(table.limits.sessions_per_flush) {
            // All that a group needs is in the cache when its first system call is made: each call
            // leaves the processor to wait for whatever is fetched after it, one line at a time.
            table.clear_owed(group.iter().map(|owed| owed.key));
            self.batch.fill(group, &self.owed.links, frames);
            let mut start = 0;
            for (owed, &end) in group.iter().zip(&self.batch.ends) {
                table.send_frames(owed.key, &self.batch.frames[start..end], frames);
                start = end;
            }
        }
        self.owed.sessions.clear();
        self.owed.links.clear();
    }
}

/// Adds an event to the frames of a session.
fn owe<D: Driver>(
    owed: &mut OwedFrames,
    table: &mut ConnectionTable<D>,
    sessions: &mut Sessions,
    frames: &mut TurnFrames,
    key: SlotKey,
    event: TurnEvent,
) {
    match table.get_mut(key) {
        Some(Connection {
            phase: Phase::Open(session),
            owed: place,
            extras,
            ..
        }) if !extras.has(Extras::FED) => owed.push(key, *session, place, event),
        Some(Connection {
            phase: Phase::Open(session),
            ..
        }) => {
            let session = *session;
            owe_replaying(owed, table, sessions, frames, key, session, event);
        }
        Some(Connection { extras, .. }) if extras.has(Extras::LOGIN) && frames.is_stored(event) => {
            // The history has it: for the poll that waits, or for the next.
            sessions.polls.wake(key, Wake::Event);
            frames.count_queued(event);
        }
        // The session ended after the plan was made, or is a poll, which is answered from the
        // history alone.
        _ => frames.count_shed(event),
    }
}

/// Adds an event to the frames of a session that is fed from the history, unless it gets the event
/// from there.
#[cold]
fn owe_replaying<D: Driver>(
    owed: &mut OwedFrames,
    table: &mut ConnectionTable<D>,
    sessions: &mut Sessions,
    frames: &mut TurnFrames,
    key: SlotKey,
    session: Session,
    event: TurnEvent,
) {
    let (position, is_stored) = (frames.position(event), frames.is_stored(event));
    match sessions.replays.live_event(key, position, is_stored) {
        LiveEvent::Send => {
            if let Some(connection) = table.get_mut(key) {
                owed.push(key, session, &mut connection.owed, event);
            }
        }
        // On the wire of 2008 it has no bytes, and reaches no client.
        LiveEvent::Hold | LiveEvent::Drop if frames.is_invisible(event, session.encoding) => {
            frames.count_shed(event);
        }
        LiveEvent::Hold => frames.count_queued(event),
        // It was sent from the history. The socket may have taken a part of it.
        LiveEvent::Drop if table.get(key).is_some_and(|it| it.blocked) => {
            frames.count_queued(event);
        }
        LiveEvent::Drop => frames.count_written(event),
        LiveEvent::Shed | LiveEvent::Lose => frames.count_shed(event),
    }
}
