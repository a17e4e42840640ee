//! How a pair comes to its end, in order or not.
//!
//! A side that broke is dead both ways. The other one first gets what was said before, and is then told
//! by a reset, as it would have been without a proxy. What it says itself nobody hears: that is not even
//! received, so that a side that pours is stopped by its full window and costs nothing.

use reactor::{Relay, SlotKey, Tick};

use crate::tcp::closing::CloseReason;
use crate::tcp::limits::{LAST_WORDS_INTERVAL, PAUSE_MIN};
use crate::tcp::names::Side;
use crate::tcp::pair::{Direction, FlowState, Pair, Tenths};
use crate::tcp::worker::Worker;

impl<D: Relay> Worker<D> {
    /// A side that had ended well may be broken by now, which no receiving would tell.
    pub(crate) fn look_for_reset(&mut self, key: SlotKey, side: Side) {
        let Some(pair) = self.pairs.get_mut(key) else {
            return;
        };
        if let Some(socket) = pair.socket(side)
            && self.driver.connected(socket).is_err()
        {
            self.on_taker_broke(key, Direction::to(side));
        }
    }

    /// The taker of `direction` is gone. What it said before still goes the other way.
    pub(crate) fn on_taker_broke(&mut self, key: SlotKey, direction: Direction) {
        self.break_flow(key, direction);
        self.look_for_end(key);
    }

    /// The giver of `direction` is gone, and its taker has been sent all that it said.
    pub(crate) fn on_giver_broke(&mut self, key: SlotKey, direction: Direction) {
        if let Some(pair) = self.pair(key) {
            pair.flow(direction).state = FlowState::Done;
        }
        self.break_flow(key, direction.opposite());
        self.look_for_end(key);
    }

    fn break_flow(&mut self, key: SlotKey, direction: Direction) {
        let now = self.now;
        if let Some(pair) = self.pair(key) {
            pair.flow(direction).state = FlowState::Broken;
            pair.moved = Tenths::of(now);
            let held = pair.flow(direction).held.take();
            self.pipes.take_back(held, now, &self.stats);
        }
    }

    /// Closes a pair if nothing is left to be carried.
    pub(crate) fn look_for_end(&mut self, key: SlotKey) {
        use FlowState::{Broken, Done};
        let Some(pair) = self.pair(key) else {
            return;
        };
        let left = match (pair.up.state, pair.down.state) {
            (Done, Done) => return self.close(key, CloseReason::Done),
            (Broken, Broken) => return self.close(key, CloseReason::Reset),
            (Broken, Done) => Some(Side::Client),
            (Done, Broken) => Some(Side::Backend),
            // One is broken, and what it said is still on its way through here.
            (Broken, _) | (_, Broken) => None,
            _ => return,
        };
        if left.is_some_and(|side| self.has_all(key, side)) {
            return self.close(key, CloseReason::Reset);
        }
        self.deadlines.add(self.now.after(LAST_WORDS_INTERVAL), key);
    }

    /// Whether a side's kernel has all that was sent to it: a reset sooner would destroy what is on its
    /// way. Where nobody can tell, it has not.
    fn has_all(&mut self, key: SlotKey, side: Side) -> bool {
        let Some(pair) = self.pairs.get_mut(key) else {
            return false;
        };
        let metrics = pair
            .socket(side)
            .and_then(|socket| self.driver.tcp_info(socket));
        metrics.is_some_and(|metrics| metrics.unacknowledged == 0)
    }
}

impl<S, P> Pair<S, P> {
    /// Whether one side is gone and the other is yet to be told.
    pub(crate) const fn is_broken(&self) -> bool {
        matches!(self.up.state, FlowState::Broken) || matches!(self.down.state, FlowState::Broken)
    }

    /// Whether ending it now would cut somebody short, who must not take that for the end.
    pub(crate) fn is_under_way(&self, now: Tick) -> bool {
        self.up.held.is_some()
            || self.down.held.is_some()
            || now.since(self.moved.tick()) < PAUSE_MIN
    }
}
