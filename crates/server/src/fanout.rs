//! Stage 4: deliveries to frames owed.
//!
//! Large deliveries are served in slices, between which small ones have their turn, by a *sweep* over the
//! slots that works like an elevator: a delivery joins where the sweep is and leaves when the sweep has
//! been at all its targets. So deliveries that come while another is under way share its system calls,
//! and each session still gets them in the order in which they came.
//!
//! What one session is owed in a turn is gathered before anything is sent, and leaves in one system call.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::ops::Range;
use std::rc::Rc;

use graph::Id;
use reactor::Driver;
use router::{Parcel, Target};

use crate::connection::{Connection, Owed, Phase};
use crate::limits::{
    LARGE_TARGETS_PER_TURN, PAYLOAD_BYTES_PER_TURN, SCRATCH_KEPT_BYTES, SMALL_DELIVERY_TARGETS,
    SMALL_TARGETS_PER_TURN, SWEPT_MAX,
};
use crate::load::Load;
use crate::palette::FrameId;
use crate::stats::Figure;
use crate::worker::Worker;

/// Deliveries on their way through a worker, and what they owe in the current turn.
#[derive(Debug, Default)]
pub(crate) struct Fanout {
    small: VecDeque<Queued>,
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
    load: Rc<Load>,
    /// Which of the load's deliveries it is.
    delivery: u32,
}

/// A delivery in the sweep.
#[derive(Debug)]
struct Swept {
    number: u64,
    load: Rc<Load>,
    delivery: u32,
    /// The target that the sweep comes to next.
    next: usize,
    /// Targets that it has been at.
    served: usize,
}

#[derive(Debug, Clone, Copy)]
struct OwedFrame {
    frame: FrameId,
    /// The next frame of the same session; behind the last, the first.
    next: u32,
}

impl Swept {
    fn targets(&self) -> &[Target] {
        self.load.delivery(self.delivery).targets.as_slice()
    }

    /// The targets before `end`, at which the sweep is in this turn.
    fn take(&mut self, end: u32) -> Range<usize> {
        let rest = &self.targets()[self.next..];
        let count = rest.partition_point(|target| target.slot < end);
        // What it had behind it when it joined ends where it began.
        let count = count.min(self.targets().len() - self.served);
        let start = self.next;
        self.next += count;
        self.served += count;
        start..self.next
    }
}

impl Fanout {
    /// Takes a parcel's deliveries into the lines they belong in.
    pub(crate) fn add(&mut self, parcel: Parcel) {
        let load = Rc::new(Load::new(parcel));
        for (index, delivery) in load.deliveries().iter().enumerate() {
            let number = self.taken;
            self.taken += 1;
            let queued = Queued {
                number,
                load: Rc::clone(&load),
                delivery: index as u32,
            };
            let is_large = delivery.targets.as_slice().len() > SMALL_DELIVERY_TARGETS;
            let subject = &load.event(index as u32).subject;
            if is_large || (!self.subjects.is_empty() && self.subjects.contains_key(subject)) {
                *self.subjects.entry(subject.clone()).or_default() += 1;
                self.waiting.push_back(queued);
            } else {
                self.small.push_back(queued);
            }
        }
    }

    /// Deliveries ever taken.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }

    /// The number of the oldest delivery that is not through.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let lines = [self.small.front(), self.waiting.front()];
        let queued = lines.into_iter().flatten().map(|queued| queued.number);
        queued
            .chain(self.sweep.iter().map(|swept| swept.number))
            .min()
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
            self.frames = Vec::new();
        }
        if !self.is_owing() {
            self.small
                .shrink_to(SCRATCH_KEPT_BYTES / size_of::<Queued>());
            self.waiting
                .shrink_to(SCRATCH_KEPT_BYTES / size_of::<Queued>());
            self.subjects.shrink_to(0);
        }
    }

    /// Lets waiting deliveries join the sweep, but not before the small ones that came earlier are
    /// through: those may be about the same subjects.
    fn join_sweep(&mut self) {
        while self.sweep.len() < SWEPT_MAX
            && let Some(foremost) = self.waiting.front()
            && self
                .small
                .front()
                .is_none_or(|small| foremost.number < small.number)
            && let Some(Queued {
                number,
                load,
                delivery,
            }) = self.waiting.pop_front()
        {
            let mut swept = Swept {
                number,
                load,
                delivery,
                next: 0,
                served: 0,
            };
            swept.next = swept
                .targets()
                .partition_point(|target| target.slot < self.slot);
            self.sweep.push(swept);
        }
    }

    /// The slot at which this turn's part of the sweep ends: none of its deliveries has more than its
    /// share of targets before it. When the sweep is through with the last slot it begins again with the first.
    fn sweep_end(&mut self) -> u32 {
        if self
            .sweep
            .iter()
            .all(|swept| swept.next == swept.targets().len())
        {
            self.slot = 0;
            self.sweep.iter_mut().for_each(|swept| swept.next = 0);
        }
        let share = LARGE_TARGETS_PER_TURN.div_ceil(self.sweep.len().max(1));
        let ends = self.sweep.iter().map(|swept| {
            let slice = swept.targets().get(swept.next..swept.next + share);
            slice.map_or(u32::MAX, |slice| slice[slice.len() - 1].slot + 1)
        });
        ends.min().unwrap_or(u32::MAX)
    }

    /// Takes deliveries out of the sweep that it has been all around with.
    fn leave_sweep(&mut self) {
        let subjects = &mut self.subjects;
        self.sweep.retain(|swept| {
            let stays = swept.served < swept.targets().len();
            if !stays {
                let subject = &swept.load.event(swept.delivery).subject;
                if let Some(count) = subjects.get_mut(subject) {
                    *count -= 1;
                    if *count == 0 {
                        subjects.remove(subject);
                    }
                }
            }
            stays
        });
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
        let (mut targets, mut bytes) = (0, 0);
        while targets < SMALL_TARGETS_PER_TURN
            && bytes < PAYLOAD_BYTES_PER_TURN
            && let Some(Queued { load, delivery, .. }) = self.fanout.small.pop_front()
        {
            bytes += load.event(delivery).payload.bytes().len();
            let frame = self.palette.add(&load, delivery, true);
            let slice = load.delivery(delivery).targets.as_slice();
            targets += slice.len();
            self.owe_all(slice, frame);
        }
    }

    fn owe_large(&mut self) {
        let end = self.fanout.sweep_end();
        let mut sweep = mem::take(&mut self.fanout.sweep);
        for swept in &mut sweep {
            let slice = swept.take(end);
            let is_last = swept.served == swept.targets().len();
            if !slice.is_empty() {
                let frame = self.palette.add(&swept.load, swept.delivery, is_last);
                self.owe_all(&swept.targets()[slice], frame);
            }
        }
        self.fanout.sweep = sweep;
        self.fanout.slot = end;
        self.fanout.leave_sweep();
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
