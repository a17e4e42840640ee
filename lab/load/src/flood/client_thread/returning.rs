//! Clients that reconnect and resume: when they leave, when they reconnect, and with which cursor.

use std::cmp::Reverse;
use std::time::Duration;

use super::{ClientThread, millis_since};
use crate::flood::behaviours::Behaviour;
use crate::flood::recovery::next_cut;
use crate::flood::stream::Stream;

/// Reconnects begun in one turn, so that answers are read between turns.
const RETURNS_PER_TURN: u32 = 64;

/// Searches for silent streams within one silence timeout.
const SEARCHES_PER_SILENCE: u32 = 16;

impl ClientThread<'_> {
    /// Whether client `index` reconnects whatever ends its stream.
    pub(super) fn always_reconnects(&self, index: usize) -> bool {
        self.config.recovery.is_some() && self.behaviour(index) == Behaviour::Good
    }

    /// Records that the stream of client `index` is open, and schedules its next cut.
    pub(super) fn on_reopened(&mut self, index: usize) {
        let Some(options) = self.config.recovery else {
            return;
        };
        let now = millis_since(self.begun);
        let absence = self.records.lock()[index].opened(now);
        if let Some(millis) = absence {
            self.reading.counts.recovery.returns += 1;
            let nanos = u64::from(millis) * 1_000_000;
            self.reading.times.absences.push(nanos);
        }
        if let Some(mean) = options.cut_every
            && self.always_reconnects(index)
        {
            let wait = next_cut(mean, &mut self.random);
            self.act_in(index, wait);
        }
    }

    /// Records that the stream of client `index` has ended, and schedules its reconnect.
    pub(super) fn return_later(&mut self, index: usize) {
        let Some(options) = self.config.recovery else {
            return;
        };
        let now = millis_since(self.begun);
        let wait = {
            let mut records = self.records.lock();
            let record = &mut records[index];
            // 0 means that the stream is open.
            record.ended_at = now.max(1);
            record.moves = record.moves.wrapping_add(1);
            record.next_wait(&options, &mut self.random)
        };
        if self.always_reconnects(index) {
            self.act_in(index, wait);
        }
    }

    /// Counts a failed attempt of client `index` to reconnect and schedules the next one. Returns
    /// false if it was no reconnect.
    pub(super) fn fail_to_return(&mut self, index: usize) -> bool {
        let (Some(options), true) = (self.config.recovery, self.always_reconnects(index)) else {
            return false;
        };
        let wait = {
            let mut records = self.records.lock();
            let record = &mut records[index];
            if !record.was_open {
                return false;
            }
            record.moves = record.moves.wrapping_add(1);
            record.next_wait(&options, &mut self.random)
        };
        self.reading.counts.recovery.attempts_failed += 1;
        self.act_in(index, wait);
        true
    }

    /// Reconnects or cuts client `index`, if the action due at `at` is still its latest.
    pub(super) fn return_or_cut(&mut self, index: usize, at: u64) {
        if self.records.lock()[index].next_action != at {
            return;
        }
        match &self.streams[index] {
            Stream::Closed => self.due.push_back(index as u32),
            Stream::Body(..) => {
                self.reading.counts.recovery.cuts += 1;
                let with_reset = self.random.below(2) == 0;
                self.leave(index, with_reset);
            }
            // The client awaits its answer, which schedules the next action.
            _ => {}
        }
    }

    /// Begins the reconnects that are due, in order, while the window allows. Returns how long to
    /// wait before the next; `None` if that depends on answers or none is due.
    pub(super) fn return_some(&mut self) -> Option<Duration> {
        for _ in 0..RETURNS_PER_TURN {
            if self.unanswered >= self.config.window {
                return None;
            }
            let index = self.due.pop_front()?;
            self.begin(index as usize);
        }
        Some(Duration::ZERO)
    }

    /// Closes streams that have been silent for too long. Returns how long to wait before the next
    /// search.
    pub(super) fn leave_silent(&mut self) -> Option<Duration> {
        let silence = self.config.recovery?.silent_after;
        let now = self.now();
        if now < self.next_search {
            return Some(self.next_search - now);
        }
        let pause = silence / SEARCHES_PER_SILENCE;
        self.next_search = now + pause;
        let since = now.saturating_sub(silence).as_millis();
        let silent: Vec<usize> = {
            let records = self.records.lock();
            let open = (0..self.streams.len()).filter(|&index| {
                matches!(self.streams[index], Stream::Body(..)) && self.always_reconnects(index)
            });
            open.filter(|&index| u128::from(records[index].heard_at) < since)
                .collect()
        };
        for index in silent {
            self.time_out(index);
        }
        Some(pause)
    }

    /// Adds the cursor to the request of client `index`, if it reconnects.
    pub(super) fn write_cursor(&mut self, index: usize) {
        if self.config.recovery.is_none() {
            return;
        }
        let records = self.records.lock();
        let record = &records[index];
        if !record.was_open {
            return;
        }
        let end = self.request.len() - b"\r\n".len();
        self.request.truncate(end);
        self.request.extend_from_slice(b"Last-Event-ID: ");
        let is_known = record
            .last_id()
            .is_some_and(|id| self.epochs.write(id, &mut self.request));
        if is_known {
            self.request.extend_from_slice(b"\r\n");
        } else {
            self.reading.counts.recovery.without_cursor += 1;
            self.request.truncate(end);
        }
        self.request.extend_from_slice(b"\r\n");
    }

    /// Returns what determines the server of client `index`: its ordinal, and how often it has
    /// moved to another node.
    pub(super) fn position(&self, index: usize) -> (u32, u8) {
        let moves = match self.config.recovery {
            Some(_) => self.records.lock()[index].moves,
            None => 0,
        };
        (self.ordinal(index), moves)
    }

    /// Schedules the next action of client `index` after `wait`.
    fn act_in(&mut self, index: usize, wait: Duration) {
        let at = (self.now() + wait).as_nanos();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        self.records.lock()[index].next_action = at;
        self.actions.push(Reverse((at, index as u32)));
    }
}
