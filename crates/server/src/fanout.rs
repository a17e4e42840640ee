//! Stage 4: deliveries to frames owed.
//!
//! Large deliveries are served in slices between which small ones have their turn. What one session is
//! owed in a turn is gathered before anything is sent, so that it leaves in one system call.

use std::collections::{HashMap, VecDeque};
use std::mem;

use graph::Key;
use reactor::Driver;
use router::{Delivery, Target};

use crate::connection::{Connection, Owed, Phase};
use crate::limits::{
    LARGE_TARGETS_PER_TURN, PAYLOAD_BYTES_PER_TURN, SCRATCH_KEPT_BYTES, SMALL_DELIVERY_TARGETS,
    SMALL_TARGETS_PER_TURN,
};
use crate::mail::delivery_weight;
use crate::palette::FrameId;
use crate::stats::Figure;
use crate::worker::Worker;

/// Deliveries on their way through a worker, and what they owe in the current turn.
#[derive(Debug, Default)]
pub(crate) struct Fanout {
    small: VecDeque<Queued>,
    large: VecDeque<Queued>,
    /// Targets of the foremost large delivery that have been served.
    served: usize,
    /// Deliveries ever taken.
    taken: u64,
    /// Subjects in `large`: a later event about one of them must wait behind it, whatever its size.
    subjects: HashMap<Key, u32>,
    /// Frames owed in this turn. Those of a session form a ring; its record names the last.
    owed: Vec<OwedFrame>,
    /// Sessions owed something, in the order in which they came to be.
    owing: Vec<Target>,
    /// Working memory: the frames of one session.
    frames: Vec<FrameId>,
}

#[derive(Debug)]
struct Queued {
    /// Which of the deliveries ever taken it was.
    number: u64,
    delivery: Delivery,
}

#[derive(Debug, Clone, Copy)]
struct OwedFrame {
    frame: FrameId,
    /// The next frame of the same session; behind the last, the first.
    next: u32,
}

impl Fanout {
    /// Takes a delivery into the line it belongs in.
    pub(crate) fn add(&mut self, delivery: Delivery) {
        let is_large = delivery.targets.as_slice().len() > SMALL_DELIVERY_TARGETS;
        let number = self.taken;
        self.taken += 1;
        if is_large || (!self.large.is_empty() && self.subjects.contains_key(&delivery.subject)) {
            *self.subjects.entry(delivery.subject).or_default() += 1;
            self.large.push_back(Queued { number, delivery });
        } else {
            self.small.push_back(Queued { number, delivery });
        }
    }

    /// Whether there is more to do without anything happening.
    pub(crate) fn is_owing(&self) -> bool {
        !self.small.is_empty() || !self.large.is_empty()
    }

    /// Gives working memory that a burst has left behind back to the allocator.
    pub(crate) fn trim(&mut self) {
        if self.owed.capacity() * size_of::<OwedFrame>() > SCRATCH_KEPT_BYTES {
            self.owed = Vec::new();
            self.owing = Vec::new();
            self.frames = Vec::new();
        }
        if !self.is_owing() && self.small.capacity() * size_of::<Queued>() > SCRATCH_KEPT_BYTES {
            self.small = VecDeque::new();
        }
    }

    /// Whether the foremost large delivery may go on: an earlier small event may be about the same
    /// subject.
    fn large_may_go(&self) -> bool {
        match (self.small.front(), self.large.front()) {
            (Some(small), Some(large)) => large.number < small.number,
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }

    fn pop_large(&mut self) -> Option<Delivery> {
        let delivery = self.large.pop_front()?.delivery;
        self.served = 0;
        if let Some(count) = self.subjects.get_mut(&delivery.subject) {
            *count -= 1;
            if *count == 0 {
                self.subjects.remove(&delivery.subject);
            }
        }
        Some(delivery)
    }

    /// Appends a frame to a session's ring; `last` is the session's own note of its end.
    fn owe(&mut self, target: Target, last: &mut Option<Owed>, frame: FrameId) {
        let index = self.owed.len() as u32;
        let next = match *last {
            None => {
                self.owing.push(target);
                index
            }
            Some(last) => mem::replace(&mut self.owed[last.get() as usize - 1].next, index),
        };
        self.owed.push(OwedFrame { frame, next });
        *last = Owed::new(index + 1);
    }

    /// What a session is owed, in order.
    fn collect(&mut self, last: Owed) {
        let last = last.get() - 1;
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
    /// Serves deliveries: a turn's worth of small ones, and a slice of the foremost large one.
    pub(crate) fn fan_out(&mut self) {
        if !self.fanout.is_owing() {
            return;
        }
        self.owe_small();
        if self.fanout.large_may_go() {
            self.owe_large();
        }
        self.flush();
        self.settle();
    }

    fn owe_small(&mut self) {
        let (mut targets, mut bytes) = (0, 0);
        while targets < SMALL_TARGETS_PER_TURN
            && bytes < PAYLOAD_BYTES_PER_TURN
            && let Some(Queued { delivery, .. }) = self.fanout.small.pop_front()
        {
            bytes += delivery.event.payload.bytes().len();
            targets += delivery.targets.as_slice().len();
            let weight = delivery_weight(&delivery);
            let frame = self.palette.add(&delivery, Some(weight));
            self.owe_all(delivery.targets.as_slice(), frame);
        }
    }

    fn owe_large(&mut self) {
        let Some(foremost) = self.fanout.large.pop_front() else {
            return;
        };
        let delivery = &foremost.delivery;
        let rest = &delivery.targets.as_slice()[self.fanout.served..];
        let is_last = rest.len() <= LARGE_TARGETS_PER_TURN;
        let slice = &rest[..rest.len().min(LARGE_TARGETS_PER_TURN)];
        let frame = self
            .palette
            .add(delivery, is_last.then(|| delivery_weight(delivery)));
        self.owe_all(slice, frame);
        self.fanout.served += slice.len();
        self.fanout.large.push_front(foremost);
        if is_last {
            self.fanout.pop_large();
        }
    }

    fn owe_all(&mut self, targets: &[Target], frame: FrameId) {
        for &target in targets {
            match self.connections.get(target.slot, target.generation) {
                Some(Connection {
                    phase: Phase::Open(_),
                    owed,
                    ..
                }) => {
                    self.fanout.owe(target, owed, frame);
                }
                // The session has ended since the plan was made.
                _ => self.palette.shed(frame),
            }
        }
    }

    /// Sends to each session what it is owed.
    fn flush(&mut self) {
        let owing = mem::take(&mut self.fanout.owing);
        for &target in &owing {
            let Some(connection) = self.connections.get(target.slot, target.generation) else {
                unreachable!("slots are emptied at the end of a turn, when nothing is owed");
            };
            let Some(last) = connection.owed.take() else {
                continue;
            };
            self.fanout.collect(last);
            let frames = mem::take(&mut self.fanout.frames);
            self.write_frames(target, &frames);
            self.fanout.frames = frames;
        }
        self.fanout.owing = owing;
        self.fanout.owing.clear();
        self.fanout.owed.clear();
    }

    /// Tells the publishers what became of their events.
    fn settle(&mut self) {
        let settled = self.palette.settle();
        self.mailbox.settle(settled.weight);
        self.stats.add(Figure::Deliveries, settled.counts.written);
        self.stats
            .add(Figure::DeliveriesQueued, settled.counts.queued);
        self.stats.add(Figure::DeliveriesShed, settled.counts.shed);
    }
}
