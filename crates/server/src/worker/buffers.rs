//! Buffers: what the worker holds, and what gives way when all workers together hold too much.

use reactor::{Driver, SlotKey};
use router::{Mailboxes as _, WorkerId};

use super::Worker;
use crate::budget::Bound;
use crate::give_way::{BufferKind, Candidate};
use crate::session::Sessions;
use crate::slow_policy::SlowPolicy;
use crate::stage::Stage as _;
use crate::stats::Metric;
use crate::table::{CloseReason, Phase};

impl<D: Driver> Worker<D> {
    /// Returns the memory of all buffers of the worker.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.table.buffer_bytes()
            + self.ingress.kept_bytes()
            + self.sessions.websockets.unfinished_bytes()
            + self.sessions.replays.memory_bytes()
            + self.feeder.kept_bytes()
    }

    /// Returns the memory of input of requests and handshakes that have not arrived whole.
    pub(crate) fn input_bytes(&self) -> usize {
        self.ingress.kept_bytes() + self.table.tls_input_bytes()
    }

    fn buffer_bound(&self) -> Bound {
        Bound(self.table.live.buffer_bytes)
    }

    /// Returns whether the worker must free memory at once.
    pub(super) fn must_free_buffers(&self) -> bool {
        let bound = self.buffer_bound();
        self.shared.budget.must_free(self.id.0, bound) && !self.largest.waits()
    }

    /// Reports what the worker holds. Returns whether it is more than before.
    pub(super) fn report_buffers(&self) -> bool {
        let budget = &self.shared.budget;
        let (before, bytes) = (budget.held_by(self.id.0), self.buffer_bytes());
        if bytes != before {
            budget.report(self.id.0, bytes);
            self.table.stats.add(Metric::BufferBytes, bytes as u64);
            self.table.stats.take(Metric::BufferBytes, before as u64);
        }
        bytes > before
    }

    /// Reports what the worker holds, and lets the largest buffers give way if all workers together
    /// hold too much. The last stage of a turn.
    pub(super) fn bound_buffers(&mut self) {
        let grows = self.report_buffers();
        let bound = self.buffer_bound();
        if grows && self.shared.budget.is_exceeded(bound) {
            self.wake_others(bound);
        }
        if !self.largest.has_work() && !self.shared.budget.must_free(self.id.0, bound) {
            return self.largest.end();
        }
        self.feeder.drop_searches();
        self.report_buffers();
        for _ in 0..self.table.limits.give_ways_per_turn {
            if !self.shared.budget.must_free(self.id.0, bound.low()) {
                self.largest.end();
                break;
            }
            let (table, ingress, sessions) = (&self.table, &self.ingress, &self.sessions);
            let input_bytes = |slot| {
                ingress.kept_bytes_of(slot)
                    + table.tls_input_bytes_of(slot)
                    + sessions.websockets.unfinished_bytes_of(slot)
            };
            let Some(candidate) = self.largest.next(table, input_bytes) else {
                break;
            };
            self.free_buffer(candidate);
            self.report_buffers();
        }
    }

    /// Lets the largest input that has not arrived whole give way if this worker keeps more than
    /// its share. Connections come to workers evenly, so none asks what others hold.
    pub(super) fn bound_input(&mut self) {
        if !self.largest_input.has_work() && self.input_bytes() <= self.input_bound.0 {
            return self.largest_input.end();
        }
        for _ in 0..self.table.limits.give_ways_per_turn {
            if self.input_bytes() <= self.input_bound.low().0 {
                self.largest_input.end();
                break;
            }
            let (table, ingress) = (&self.table, &self.ingress);
            let input_bytes = |slot| ingress.kept_bytes_of(slot) + table.tls_input_bytes_of(slot);
            let Some(candidate) = self.largest_input.next(table, input_bytes) else {
                break;
            };
            self.free_buffer(candidate);
        }
    }

    /// Begins a turn in which input of further connections is kept only if there is room for it.
    pub(super) fn check_room_for_input(&mut self) {
        let is_full = self.shared.budget.is_exceeded(self.buffer_bound());
        self.ingress
            .set_full(is_full || self.input_bytes() > self.input_bound.0);
    }

    /// Wakes the workers that have more to free than this one: they may sleep.
    fn wake_others(&self, bound: Bound) {
        let mailboxes = self.shared.router.mailboxes();
        for worker in self.shared.budget.beyond_share(bound) {
            mailboxes.ring(WorkerId(worker));
        }
    }

    fn free_buffer(&mut self, candidate: Candidate) {
        let Some((key, _)) = self.table.at(candidate.slot) else {
            return;
        };
        let metric = match candidate.kind {
            BufferKind::Backlog => {
                // It may have read on since it was found.
                let backlog = self.table.backlogs().get(candidate.slot);
                if backlog.is_none_or(|backlog| backlog.cost() < candidate.bytes / 2) {
                    return;
                }
                match self.table.give_way(key) {
                    Some(policy) => gave_way_by(policy),
                    None => return,
                }
            }
            BufferKind::Input => {
                self.refuse_input(key);
                Metric::GaveWayInput
            }
            BufferKind::FullSocket => {
                self.table.close_stalled(key);
                Metric::GaveWayStalled
            }
        };
        self.table.stats.add(metric, 1);
        self.catch_up_behind();
        self.log_out_ended();
        self.remove_closed();
    }

    /// Ends a connection whose input has not arrived whole.
    fn refuse_input(&mut self, key: SlotKey) {
        match self.table.get(key).map(|connection| connection.phase) {
            Some(Phase::Open(session)) if session.may_talk() => {
                let Sessions { websockets, .. } = &mut self.sessions;
                websockets.refuse_unfinished(&mut self.table, key);
            }
            // Its client has nothing to say: a record that it leaves unfinished is no request.
            Some(Phase::Open(_)) => self.table.close(key, CloseReason::Rejected),
            _ => {
                self.responder.refuse_unread(&mut self.table, key);
                self.ingress.drop_kept(key.index);
            }
        }
    }

    /// Notes that the worker has ended and holds nothing.
    pub(super) fn release_buffers(&self) {
        self.shared.budget.report(self.id.0, 0);
    }
}

const fn gave_way_by(policy: SlowPolicy) -> Metric {
    match policy {
        SlowPolicy::Close => Metric::GaveWayClose,
        SlowPolicy::CatchUp => Metric::GaveWayCatchUp,
        SlowPolicy::DropOldest => Metric::GaveWayDropOldest,
        SlowPolicy::Latest => Metric::GaveWayLatest,
    }
}
