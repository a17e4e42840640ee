//! Clients that come back to their place: when they leave, when they return, and what they ask for.

use std::cmp::Reverse;
use std::time::Duration;

use super::{ClientThread, millis_since};
use crate::flood::behaviours::Behaviour;
use crate::flood::recovery::next_cut;
use crate::flood::stream::Stream;

/// Clients that begin to come back between two looks at what came, so that answers are read
/// meanwhile.
const RETURNS_PER_TURN: u32 = 64;

/// Looks for silent streams within the time that a stream may be silent.
const LOOKS_PER_SILENCE: u32 = 16;

impl ClientThread<'_> {
    /// Whether client `index` comes back by itself whatever ends its stream.
    pub(super) fn returns(&self, index: usize) -> bool {
        self.config.recovery.is_some() && self.behaviour(index) == Behaviour::Good
    }

    /// Takes note that the stream of client `index` is open.
    pub(super) fn returned(&mut self, index: usize) {
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
            && self.returns(index)
        {
            let wait = next_cut(mean, &mut self.random);
            self.act_in(index, wait);
        }
    }

    /// The stream of client `index` has ended: it will come back.
    pub(super) fn return_later(&mut self, index: usize) {
        let Some(options) = self.config.recovery else {
            return;
        };
        let now = millis_since(self.begun);
        let wait = {
            let mut records = self.records.lock();
            let record = &mut records[index];
            // 0 says that there is a stream.
            record.ended_at = now.max(1);
            record.moves = record.moves.wrapping_add(1);
            record.next_wait(&options, &mut self.random)
        };
        if self.returns(index) {
            self.act_in(index, wait);
        }
    }

    /// Counts an attempt of client `index` to come back; whether it was one.
    pub(super) fn fail_to_return(&mut self, index: usize) -> bool {
        let (Some(options), true) = (self.config.recovery, self.returns(index)) else {
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

    /// The time of client `index` has come, if its latest act was due at `at`.
    pub(super) fn return_or_cut(&mut self, index: usize, at: u64) {
        if self.records.lock()[index].next_act != at {
            return;
        }
        match &self.streams[index] {
            Stream::Closed => self.due.push_back(index as u32),
            Stream::Body(..) => {
                self.reading.counts.recovery.cuts += 1;
                let with_reset = self.random.below(2) == 0;
                self.leave(index, with_reset);
            }
            // Its answer is awaited: the next act follows from that.
            _ => {}
        }
    }

    /// Lets clients come back that are due, in their order, while the window allows. Says how long
    /// to wait before more may; nothing when that depends on answers, or when none is due.
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

    /// Ends streams that have been silent for too long. Says how long to wait before the next look.
    pub(super) fn leave_silent(&mut self) -> Option<Duration> {
        let silence = self.config.recovery?.silence;
        let now = self.now();
        if now < self.next_look {
            return Some(self.next_look - now);
        }
        let pause = silence / LOOKS_PER_SILENCE;
        self.next_look = now + pause;
        let since = now.saturating_sub(silence).as_millis();
        let silent: Vec<usize> = {
            let records = self.records.lock();
            let open = (0..self.streams.len()).filter(|&index| {
                matches!(self.streams[index], Stream::Body(..)) && self.returns(index)
            });
            open.filter(|&index| u128::from(records[index].heard_at) < since)
                .collect()
        };
        for index in silent {
            self.time_out(index);
        }
        Some(pause)
    }

    /// Adds to the request of client `index` where it was, if it comes back.
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

    /// Which of the servers client `index` uses: its ordinal, and how often it has moved on.
    pub(super) fn place(&self, index: usize) -> (u32, u8) {
        let moves = match self.config.recovery {
            Some(_) => self.records.lock()[index].moves,
            None => 0,
        };
        (self.ordinal(index), moves)
    }

    /// Makes the next act of client `index` due after `wait`.
    fn act_in(&mut self, index: usize, wait: Duration) {
        let at = (self.now() + wait).as_nanos();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        self.records.lock()[index].next_act = at;
        self.acts.push(Reverse((at, index as u32)));
    }
}
