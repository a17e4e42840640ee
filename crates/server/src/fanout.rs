//! Stage 4: deliveries to frames owed.
//!
//! What one session is owed in a turn is gathered before anything is sent, and leaves in one system call.

mod sweep;

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::ops::Range;
use std::rc::Rc;

use graph::Id;
use reactor::Driver;
use reactor::SlotKey;
use router::Parcel;

use crate::connection::{Connection, Owed, Phase, Session};
use crate::limits::{
    PAYLOAD_BYTES_PER_TURN, SCRATCH_KEPT_BYTES, SESSIONS_PER_FLUSH, SMALL_DELIVERY_RECIPIENTS,
    SMALL_RECIPIENTS_PER_TURN,
};
use crate::load::Load;
use crate::palette::FrameId;
use crate::worker::Worker;
use sweep::Swept;

/// Deliveries on their way through a worker, and what they owe in the current turn.
#[derive(Debug, Default)]
pub(crate) struct Fanout {
    small: VecDeque<Run>,
    /// Large deliveries that have not joined the sweep.
    waiting: VecDeque<Queued>,
    sweep: Vec<Swept>,
    /// The slot that the sweep visits next.
    slot: u32,
    /// Deliveries ever taken.
    taken: u64,
    /// Subjects of large deliveries: a later event about one of them must come behind it, whatever its
    /// size.
    subjects: HashMap<Id, u32>,
    /// Frames owed in this turn. Those of a session form a ring.
    owed: Vec<OwedFrame>,
    /// Sessions owed something, in the order in which they came to be.
    owing: Vec<Owing>,
    /// Working memory: the recipients of small deliveries.
    aimed: Vec<(SlotKey, FrameId)>,
    /// Working memory: the frames of one session.
    frames: Vec<FrameId>,
}

/// Small deliveries of one load, one after the other.
#[derive(Debug)]
struct Run {
    /// Which of the deliveries ever taken the first was.
    number: u64,
    load: Rc<Load>,
    /// Which of the load's deliveries they are; never none.
    deliveries: Range<u32>,
}

/// A large delivery.
#[derive(Debug)]
struct Queued {
    number: u64,
    load: Rc<Load>,
    delivery: u32,
}

#[derive(Debug, Clone, Copy)]
struct OwedFrame {
    frame: FrameId,
    /// The next frame of the same session; behind the last, the first.
    next: u32,
}

/// A session that is owed something in this turn.
#[derive(Debug, Clone, Copy)]
struct Owing {
    key: SlotKey,
    session: Session,
    /// The last of its frames.
    last: u32,
}

impl Fanout {
    /// Takes a parcel's deliveries into the lines they belong in.
    pub(crate) fn add(&mut self, parcel: Parcel) {
        let load = Rc::new(Load::new(parcel));
        for (delivery, index) in load.deliveries().iter().zip(0..) {
            let number = self.taken;
            self.taken += 1;
            let is_large = delivery.recipients.as_slice().len() > SMALL_DELIVERY_RECIPIENTS;
            let subject = &load.event(index).subject;
            if is_large || (!self.subjects.is_empty() && self.subjects.contains_key(subject)) {
                *self.subjects.entry(subject.clone()).or_default() += 1;
                self.waiting.push_back(Queued {
                    number,
                    load: Rc::clone(&load),
                    delivery: index,
                });
                continue;
            }
            match self.small.back_mut() {
                Some(run) if run.deliveries.end == index && Rc::ptr_eq(&run.load, &load) => {
                    run.deliveries.end += 1;
                }
                _ => self.small.push_back(Run {
                    number,
                    load: Rc::clone(&load),
                    deliveries: index..index + 1,
                }),
            }
        }
    }

    /// Deliveries ever taken.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// The number of the oldest delivery that is not through.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let small = self.small.front().map(|run| run.number);
        let waiting = self.waiting.front().map(|queued| queued.number);
        let swept = self.sweep.iter().map(|swept| swept.number);
        small.into_iter().chain(waiting).chain(swept).min()
    }

    /// Whether there is more to do without anything happening.
    pub(crate) fn is_owing(&self) -> bool {
        !self.small.is_empty() || !self.waiting.is_empty() || !self.sweep.is_empty()
    }

    /// Whether a large delivery is under way.
    pub(crate) const fn is_sweeping(&self) -> bool {
        !self.sweep.is_empty()
    }

    /// Gives working memory that a burst has left behind back to the allocator.
    pub(crate) fn trim(&mut self) {
        if self.owed.capacity() * size_of::<OwedFrame>() > SCRATCH_KEPT_BYTES {
            self.owed = Vec::new();
            self.owing = Vec::new();
            self.aimed = Vec::new();
            self.frames = Vec::new();
        }
        if !self.is_owing() {
            self.small.shrink_to(SCRATCH_KEPT_BYTES / size_of::<Run>());
            self.waiting
                .shrink_to(SCRATCH_KEPT_BYTES / size_of::<Queued>());
            self.subjects.shrink_to(0);
        }
    }

    /// Appends a frame to a session's ring; `place` is the session's own note of its place among
    /// those owed something.
    fn owe(&mut self, key: SlotKey, session: Session, place: &mut Option<Owed>, frame: FrameId) {
        let last = self.owed.len() as u32;
        let next = match *place {
            None => {
                self.owing.push(Owing { key, session, last });
                *place = Owed::new(self.owing.len() as u32);
                last
            }
            Some(place) => {
                let owing = &mut self.owing[place.get() as usize - 1];
                let before = mem::replace(&mut owing.last, last);
                mem::replace(&mut self.owed[before as usize].next, last)
            }
        };
        self.owed.push(OwedFrame { frame, next });
    }

    /// What a session is owed, in order.
    fn collect(&mut self, last: u32) {
        let mut index = last;
        self.frames.clear();
        loop {
            index = self.owed[index as usize].next;
            self.frames.push(self.owed[index as usize].frame);
            if index == last {
                return;
            }
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Serves deliveries: a turn's worth of small ones, and a slice of the large ones.
    pub(crate) fn fan_out(&mut self) {
        if !self.fanout.is_owing() {
            return;
        }
        self.owe_small();
        self.fanout.join_sweep();
        self.owe_large();
        self.flush();
        self.settle();
    }

    fn owe_small(&mut self) {
        let (mut recipients, mut bytes) = (0, 0);
        while recipients < SMALL_RECIPIENTS_PER_TURN
            && bytes < PAYLOAD_BYTES_PER_TURN
            && let Some(run) = self.fanout.small.front_mut()
        {
            let delivery = run.deliveries.start;
            bytes += run.load.event(delivery).payload.bytes().len();
            let frame = self.palette.add(&run.load, delivery, true);
            let slice = run.load.delivery(delivery).recipients.as_slice();
            recipients += slice.len();
            let aimed = slice.iter().map(|&key| (key, frame));
            self.fanout.aimed.extend(aimed);
            run.number += 1;
            run.deliveries.start += 1;
            if run.deliveries.is_empty() {
                self.fanout.small.pop_front();
            }
        }
        // In a loop of their own: with nothing between them, the processor fetches several records at a
        // time.
        let mut aimed = mem::take(&mut self.fanout.aimed);
        for (key, frame) in aimed.drain(..) {
            self.owe(key, frame);
        }
        self.fanout.aimed = aimed;
    }

    fn owe_large(&mut self) {
        let end = self.fanout.sweep_end();
        let mut sweep = mem::take(&mut self.fanout.sweep);
        for swept in &mut sweep {
            let slice = swept.take(end);
            let is_last = swept.served == swept.recipients().len();
            if !slice.is_empty() {
                let frame = self.palette.add(&swept.load, swept.delivery, is_last);
                for &key in &swept.recipients()[slice] {
                    self.owe(key, frame);
                }
            }
        }
        self.fanout.sweep = sweep;
        self.fanout.slot = end;
        self.fanout.leave_sweep();
    }

    fn owe(&mut self, key: SlotKey, frame: FrameId) {
        match self.connections.get_mut(key) {
            Some(Connection {
                phase: Phase::Open(session),
                owed,
                ..
            }) => self.fanout.owe(key, *session, owed, frame),
            // The session has ended since the plan was made.
            _ => self.palette.shed(frame),
        }
    }

    /// Sends to each session what it is owed, group by group.
    fn flush(&mut self) {
        let owing = mem::take(&mut self.fanout.owing);
        for group in owing.chunks(SESSIONS_PER_FLUSH) {
            self.prepare(group);
            for owing in group {
                self.fanout.collect(owing.last);
                let frames = mem::take(&mut self.fanout.frames);
                self.write_frames(owing.key, &frames);
                self.fanout.frames = frames;
            }
        }
        self.fanout.owing = owing;
        self.fanout.owing.clear();
        self.fanout.owed.clear();
    }

    /// Encodes what a group is owed and visits its records, so that all of it is in the cache when the
    /// first system call is made: each call leaves the processor to wait for whatever is fetched after
    /// it, one line at a time.
    fn prepare(&mut self, group: &[Owing]) {
        for &Owing { key, .. } in group {
            let Some(connection) = self.connections.get_mut(key) else {
                unreachable!("slots are emptied at the end of a turn, when nothing is owed");
            };
            connection.owed = None;
        }
        let epoch = self.shared.router.epoch();
        for &Owing { session, last, .. } in group {
            self.fanout.collect(last);
            for &frame in &self.fanout.frames {
                self.palette
                    .encode(frame, session.transport, session.framing, epoch);
            }
        }
    }

    /// Tells the publishers what became of their events.
    fn settle(&mut self) {
        self.stats.delivered(self.palette.counts());
        let weight = self.palette.settle();
        self.mailbox.settle(weight);
    }
}
