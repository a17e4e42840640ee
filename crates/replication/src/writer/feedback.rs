//! Feedback from the log and the engine on the entries that a writer has sent.

use std::time::Duration;

use super::group::Group;
use super::options::REFUSED_PAUSE;
use super::{Finished, NotOurs, Phase, Writer};
use crate::incarnation::Incarnation;
use crate::position::StreamSequence;
use crate::reader::{Outcome, Read};
use crate::table::Skip;

impl<T> Writer<T> {
    /// Processes an entry of the log that this node has read. To be called for every entry, in
    /// order. Returns the appends that count with it.
    ///
    /// The entry may have ended this writer's incarnation; see
    /// [`needs_incarnation`](Self::needs_incarnation).
    ///
    /// # Errors
    ///
    /// When the entry counts under the incarnation of this writer but was not sent by it. The node
    /// must stop.
    pub fn read_back(&mut self, read: &Read) -> Result<Vec<Finished<T>>, NotOurs> {
        debug_assert!(
            read.sequence > self.read,
            "entries are read in the order of the log"
        );
        self.read = read.sequence;
        let mut finished = Vec::new();
        if self.incarnation() == Some(read.head.incarnation) {
            match read.outcome {
                Outcome::Counts(_) => finished = self.counts(read)?,
                Outcome::Skipped(Skip::OutOfTurn { .. }) => self.resend_all(),
                Outcome::Skipped(Skip::StaleNodeUp) => self.begin_again(),
                Outcome::Skipped(_) => {}
            }
        }
        if self.passed_over() {
            self.resend_all();
        }
        if let Some(incarnation) = self.incarnation()
            && read.ended.contains(&incarnation)
        {
            self.gone();
            if read.head.incarnation == incarnation {
                self.phase = Phase::Left;
            }
        }
        Ok(finished)
    }

    fn counts(&mut self, read: &Read) -> Result<Vec<Finished<T>>, NotOurs> {
        let (head, sequence) = (read.head, read.sequence);
        if let Phase::Beginning(incarnation, _) = self.phase
            && head.number == 1
        {
            self.phase = Phase::Live(incarnation);
            return Ok(Vec::new());
        }
        let is_ours = |group: &mut Group<T>| {
            let is_sent = group.sent.is_some() && head.number == self.first_number;
            is_sent && head.commands == group.commands()
        };
        let Some(group) = self.queue.pop_front_if(is_ours) else {
            return Err(NotOurs { sequence });
        };
        self.first_number += 1;
        self.sent = self.sent.saturating_sub(1);
        self.waiting_bytes -= group.charge;
        debug_assert!(
            !self.queue.is_empty() || self.waiting_bytes == 0,
            "an empty queue has no bytes"
        );
        self.probe = self.probe.filter(|&last| last >= self.first_number);
        Ok(group.finish(sequence).collect())
    }

    /// Returns whether the reader has passed the stored copy of the first entry, which did not
    /// count.
    fn passed_over(&mut self) -> bool {
        let first = self.queue.front_mut().filter(|_| self.sent > 0);
        first.is_some_and(|group| group.stored.take_if(|at| *at <= self.read).is_some())
    }

    /// Goes back to the first entry, but only once for each: after a lost entry many copies are out
    /// of order, and only the first of them is a reason.
    fn resend_all(&mut self) {
        if self.went_back != self.first_number {
            self.went_back = self.first_number;
            self.go_back(0);
            self.probe = None;
        }
    }

    const fn begin_again(&mut self) {
        if let Phase::Beginning(_, due) = &mut self.phase {
            *due = Duration::ZERO;
        }
    }

    fn gone(&mut self) {
        self.phase = Phase::Gone;
        // Appends that were answered with `Unknown` need not be sent again.
        self.queue.retain(Group::has_tokens);
        self.waiting_bytes = self.queue.iter().map(|group| group.charge).sum();
        for group in &mut self.queue {
            group.forget_number();
        }
        (self.sent, self.first_number) = (0, 2);
        (self.probe, self.went_back) = (None, 0);
    }

    /// Returns whether another node has declared the incarnation gone, so that
    /// [`renew`](Self::renew) must be called.
    pub const fn needs_incarnation(&self) -> bool {
        matches!(self.phase, Phase::Gone)
    }

    /// Returns whether the writer has read back a `NodeGone` that it wrote for itself, as a node
    /// does when it ends. Waiting appends do not count, and [`end`](Self::end) answers them.
    pub const fn has_left(&self) -> bool {
        matches!(self.phase, Phase::Left)
    }

    /// Continues under a new incarnation, which must never have been used before.
    pub const fn renew(&mut self, incarnation: Incarnation) {
        if self.needs_incarnation() {
            self.phase = Phase::Beginning(incarnation, Duration::ZERO);
        }
    }

    /// Records that the engine has stored a copy of an entry. The entry is not sent again unless
    /// the reader passes that sequence and the entry did not count.
    pub fn acknowledged(
        &mut self,
        incarnation: Incarnation,
        number: u64,
        sequence: StreamSequence,
    ) {
        if sequence <= self.read {
            // It is already known whether the copy counts.
            return;
        }
        if let Some(index) = self.index(incarnation, number) {
            self.queue[index].stored = Some(sequence);
            self.probe = self.probe.filter(|&last| last > number);
        }
    }

    /// Records that the engine has refused an entry or could not be reached for it. The writer
    /// resends it after a pause.
    pub fn refused(&mut self, now: Duration, incarnation: Incarnation, number: u64) {
        self.begin_again();
        if let Some(index) = self.index(incarnation, number) {
            self.go_back(index);
            self.probe = Some(number);
        }
        self.pause_until = now + REFUSED_PAUSE;
    }

    fn index(&self, incarnation: Incarnation, number: u64) -> Option<usize> {
        let index = usize::try_from(number.checked_sub(self.first_number)?).ok()?;
        let is_sent = self.phase == Phase::Live(incarnation) && index < self.sent;
        is_sent.then_some(index)
    }

    /// Records that the engine cannot be reached.
    pub fn disconnected(&mut self, now: Duration) {
        self.disconnected.get_or_insert(now);
    }

    /// Records that the engine can be reached again. All entries from the first unacknowledged one
    /// on are sent again.
    pub fn connected(&mut self) {
        if self.disconnected.take().is_none() {
            return;
        }
        self.begin_again();
        let mut in_flight = self.queue.iter().take(self.sent);
        let unsure = in_flight.position(|group| group.stored.is_none());
        self.go_back(unsure.unwrap_or(self.sent));
        (self.probe, self.pause_until) = (None, Duration::ZERO);
    }
}
