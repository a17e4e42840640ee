//! Sessions whose clients have come from a node of the cluster that was further in the log.
//!
//! Such a session is live, and what comes up to its cursor is dropped. It is settled when this node
//! is there as well.

use std::cmp::Reverse;

use reactor::SlotKey;

use super::replays::{Replays, Stage};

/// Sessions at which those that have ended are looked for first.
const PRUNE_MIN: usize = 1024;

impl Replays {
    /// Lets a session go live at the position of its cursor, which the head has not reached.
    pub(super) fn go_live_ahead(&mut self, key: SlotKey, cursor: u64) {
        if let Some(replay) = self.get_mut(key) {
            replay.stage = Stage::Live;
            replay.fed = cursor;
            self.ahead.sessions.push(Reverse((cursor, key)));
        }
        if self.ahead.sessions.len() >= PRUNE_MIN.max(2 * self.ahead.kept) {
            let mut sessions = std::mem::take(&mut self.ahead.sessions);
            sessions.retain(|&Reverse((fed, key))| self.is_live_at(key, fed));
            self.ahead.kept = sessions.len();
            self.ahead.sessions = sessions;
        }
    }

    /// Lets sessions settle whose cursors `head` has reached.
    pub(crate) fn head_reached(&mut self, head: impl FnOnce() -> u64) {
        if self.ahead.sessions.is_empty() {
            return;
        }
        let head = head();
        while let Some(&Reverse((fed, key))) = self.ahead.sessions.peek()
            && fed <= head
        {
            self.ahead.sessions.pop();
            self.settling.push_back((fed, key));
        }
    }

    /// Returns whether a session went live at a position and is not settled.
    pub(super) fn is_live_at(&self, key: SlotKey, fed: u64) -> bool {
        let replay = self.get(key);
        replay.is_some_and(|replay| replay.stage == Stage::Live && replay.fed == fed)
    }
}
