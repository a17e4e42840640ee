//! Reminders by the second, in amortised constant time.

use std::collections::VecDeque;

use super::RECONNECT_SECONDS;
use crate::time::UnixSeconds;

/// Seconds ahead for which there is a list each; a later time goes into the last list, and is then
/// put off. Reaches no further than [`RECONNECT_SECONDS`]: the end of a session leaves a ticket no
/// more than that, and its reminder must not come later.
const SPAN: usize = RECONNECT_SECONDS as usize + 1;

/// Slots to be reminded of, by the second. A clock that goes back pauses it.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// The second of the first list.
    first: u64,
    seconds: VecDeque<Vec<u32>>,
    count: usize,
}

impl Deadlines {
    /// Adds a slot, to be popped at `at`: earlier when that is far ahead, later when the clock was
    /// set back.
    pub(super) fn add(&mut self, slot: u32, at: UnixSeconds, now: UnixSeconds) {
        if self.count == 0 {
            self.first = now.0;
            self.seconds.clear();
        }
        let ahead = at.0.saturating_sub(self.first).min(SPAN as u64 - 1) as usize;
        if self.seconds.len() <= ahead {
            self.seconds.resize_with(ahead + 1, Vec::new);
        }
        self.seconds[ahead].push(slot);
        self.count += 1;
    }

    /// Removes a slot whose time has come by `now`.
    pub(super) fn pop(&mut self, now: UnixSeconds) -> Option<u32> {
        while self.count > 0 && self.first <= now.0 {
            if let Some(slot) = self.seconds.front_mut().and_then(Vec::pop) {
                self.count -= 1;
                return Some(slot);
            }
            self.seconds.pop_front();
            self.first += 1;
        }
        None
    }
}
