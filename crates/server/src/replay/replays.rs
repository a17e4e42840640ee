//! Replays of a worker: how far each session is.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use reactor::{SlotKey, Tick};

use crate::limits::{Limits, PERIOD_RETRY_INTERVAL};
use crate::stage;
use crate::table::SparseSlots;

/// Replays of a worker.
#[derive(Debug)]
pub(crate) struct Replays {
    held_until_deferred: u32,
    pub(super) slots: SparseSlots<Replay>,
    /// Sessions that can be fed now, each once.
    pub(super) ready: VecDeque<SlotKey>,
    /// Sessions that have everything and wait for a planning period, which ascends.
    pub(super) waiting: VecDeque<(u64, SlotKey)>,
    /// Sessions that are fed when all deliveries below a number, which ascends, are done.
    pub(super) in_flight: VecDeque<(u64, SlotKey)>,
    /// Sessions that went live at a position, which ascends, and still drop what was replayed.
    pub(super) settling: VecDeque<(u64, SlotKey)>,
    /// The first of these: the worker has taken its mail since they went live.
    pub(super) settled: usize,
    /// Sessions that went live at positions that the head has not reached.
    pub(super) ahead: Ahead,
    /// Sessions that are to be told of events that the history does not have.
    pub(super) unstored: Vec<SlotKey>,
    /// Sessions that hold many events, and may be deferred if they cannot be fed.
    pub(super) to_defer: Vec<SlotKey>,
}

/// Progress of one session. Exists while the session has its bit in `Extras`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replay {
    pub(super) key: SlotKey,
    /// Everything up to this position is sent or in the backlog.
    pub(super) fed: u64,
    pub(super) stage: Stage,
    /// Live events that were counted as queued and are not fed yet.
    pub(super) held: u32,
    /// Live events that the history does not have, and that the session is not told about yet.
    pub(super) unstored: u32,
    /// Position of the first live event that was held.
    pub(super) held_from: u64,
    /// What a reset told as lost: the positions after the first one, up to the second.
    pub(super) lost: (u64, u64),
    pub(super) is_ready: bool,
    pub(super) is_waiting: bool,
    /// Whether events that the history stores are not planned for the session: see
    /// [`router::Router::defer`].
    pub(super) is_deferred: bool,
}

/// Stage of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client is to say in a message which events it has. `fed` is the head before its login.
    Awaited,
    /// The events after `fed` are sent. The session may go live in this planning period.
    Missed { live_from: u64 },
    /// The last events of each subject up to a position are sent, then those after it.
    Rewind {
        count: u8,
        until: u64,
        live_from: u64,
    },
    /// Events in flight before a position are sent live. When none is left, the events from that
    /// position on are sent from the history.
    InFlight { before: u64 },
    /// The session is live. What comes up to `fed` was replayed.
    Live,
}

impl Stage {
    /// Returns whether events are sent from the history.
    pub(super) const fn is_fed(self) -> bool {
        matches!(self, Self::Missed { .. } | Self::Rewind { .. })
    }

    /// Sets the planning period in which a session that is fed may go live.
    const fn go_live_from(&mut self, period: u64) {
        if let Self::Missed { live_from } | Self::Rewind { live_from, .. } = self {
            *live_from = period;
        }
    }

    /// Returns the planning period in which the session may go live.
    pub(super) const fn live_from(self) -> u64 {
        match self {
            Self::Missed { live_from } | Self::Rewind { live_from, .. } => live_from,
            Self::Awaited | Self::InFlight { .. } | Self::Live => 0,
        }
    }
}

/// Sessions by the position of their cursor.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) sessions: BinaryHeap<Reverse<(u64, SlotKey)>>,
    /// Sessions after the last look.
    pub(super) kept: usize,
}

/// What becomes of a live event for a session with a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LiveEvent {
    /// It is sent as to any session.
    Send,
    /// It is held until the session is fed with it.
    Hold,
    /// It was replayed.
    Drop,
    /// A reset has told the client that it is lost.
    Shed,
    /// The history does not have it, and its place in the stream is in what is fed. The session is
    /// told.
    Lose,
}

impl stage::Stage for Replays {
    fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    fn next_in(&self, _now: Tick, _connections: usize) -> Option<Duration> {
        self.awaits_period().then_some(PERIOD_RETRY_INTERVAL)
    }
}

impl Replays {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            held_until_deferred: limits.held_until_deferred,
            slots: SparseSlots::new(limits),
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            settling: VecDeque::new(),
            settled: 0,
            ahead: Ahead::default(),
            unstored: Vec::new(),
            to_defer: Vec::new(),
        }
    }

    /// Returns the memory of all replays.
    pub(crate) const fn memory_bytes(&self) -> usize {
        self.slots.memory_bytes()
    }

    /// Returns the memory of all replays, counted one by one.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn count_memory_bytes(&self) -> usize {
        self.slots.count_memory_bytes()
    }

    /// Feeds the sessions whose deliveries in flight are done. `oldest` is the number of the oldest
    /// delivery in flight.
    pub(crate) fn deliveries_done(&mut self, oldest: Option<u64>) {
        while let Some(&(taken, key)) = self.in_flight.front()
            && oldest.is_none_or(|oldest| oldest >= taken)
        {
            self.in_flight.pop_front();
            if let Some(replay) = self.get_mut(key)
                && let Stage::InFlight { before } = replay.stage
            {
                replay.fed = replay.fed.max(before - 1);
                replay.stage = Stage::Missed { live_from: 0 };
                self.feed_soon(key);
            }
        }
    }

    /// Returns the head before the login of a session whose cursor is awaited.
    pub(crate) fn awaited(&self, key: SlotKey) -> Option<u64> {
        let replay = self.get(key)?;
        (replay.stage == Stage::Awaited).then_some(replay.fed)
    }

    /// Begins to feed a session whose cursor was awaited.
    pub(crate) fn begin_awaited(&mut self, key: SlotKey, after: u64, live_from: u64) {
        if let Some(replay) = self.get_mut(key) {
            replay.fed = after;
            replay.stage = Stage::Missed { live_from };
            self.feed_soon(key);
        }
    }

    pub(super) fn insert(&mut self, key: SlotKey, fed: u64, stage: Stage) {
        let is_deferred = self.is_deferred(key);
        let replay = Replay {
            key,
            fed,
            stage,
            held: 0,
            unstored: 0,
            held_from: u64::MAX,
            lost: (0, 0),
            is_ready: false,
            is_waiting: false,
            is_deferred,
        };
        self.slots.insert(key.index, replay);
        self.feed_soon(key);
    }

    pub(super) fn get(&self, key: SlotKey) -> Option<&Replay> {
        let replay = self.slots.get(key.index);
        replay.filter(|replay| replay.key == key)
    }

    pub(super) fn get_mut(&mut self, key: SlotKey) -> Option<&mut Replay> {
        let replay = self.slots.get_mut(key.index);
        replay.filter(|replay| replay.key == key)
    }

    /// Returns the position up to which a session was fed, if it has a replay.
    pub(super) fn fed(&self, key: SlotKey) -> Option<u64> {
        self.get(key).map(|replay| replay.fed)
    }

    /// Returns the number of live events that a session holds.
    pub(super) fn held(&self, key: SlotKey) -> u32 {
        self.get(key).map_or(0, |replay| replay.held)
    }

    /// Notes live events from position `first` on that count as queued for a session that is fed.
    pub(super) fn hold(&mut self, key: SlotKey, events: u32, first: u64) {
        if let Some(replay) = self.get_mut(key) {
            replay.held += events;
            replay.held_from = replay.held_from.min(first);
        }
    }

    /// Removes the replay of a session that has ended. Returns the live events that were held, if
    /// the session was still fed.
    pub(super) fn remove(&mut self, key: SlotKey) -> Option<u32> {
        let &Replay { stage, held, .. } = self.get(key)?;
        self.slots.remove(key.index);
        (stage != Stage::Live).then_some(held)
    }

    /// Feeds a session in the next step, unless it is live: its socket has room again, or there are
    /// new events.
    pub(super) fn feed_soon(&mut self, key: SlotKey) {
        if let Some(replay) = self.get_mut(key)
            && replay.stage.is_fed()
            && !std::mem::replace(&mut replay.is_ready, true)
        {
            self.ready.push_back(key);
        }
    }

    /// Tells what becomes of a live event for a session.
    pub(crate) fn live_event(&mut self, key: SlotKey, position: u64, is_stored: bool) -> LiveEvent {
        let held_until_deferred = self.held_until_deferred;
        let Some(replay) = self.get_mut(key) else {
            return LiveEvent::Send;
        };
        let is_live = match replay.stage {
            Stage::Live => true,
            Stage::InFlight { before } => position < before,
            Stage::Awaited | Stage::Missed { .. } | Stage::Rewind { .. } => false,
        };
        if is_live && position > replay.fed {
            return LiveEvent::Send;
        }
        if !is_stored {
            replay.unstored += 1;
            if replay.unstored == 1 {
                self.unstored.push(key);
            }
            return LiveEvent::Lose;
        }
        if position <= replay.fed {
            let (after, until) = replay.lost;
            return match position > after && position <= until {
                true => LiveEvent::Shed,
                false => LiveEvent::Drop,
            };
        }
        replay.held += 1;
        replay.held_from = replay.held_from.min(position);
        let are_many = replay.held.is_multiple_of(held_until_deferred);
        if replay.is_waiting {
            self.feed_soon(key);
        }
        if are_many {
            self.to_defer.push(key);
        }
        LiveEvent::Hold
    }

    /// Takes the sessions that hold many events.
    pub(crate) fn take_to_defer(&mut self) -> Vec<SlotKey> {
        std::mem::take(&mut self.to_defer)
    }

    /// Notes that a session is deferred. Returns whether it was not, and may be.
    pub(crate) fn defer(&mut self, key: SlotKey) -> bool {
        let replay = self.get_mut(key);
        replay.is_some_and(|replay| {
            replay.stage.is_fed() && !std::mem::replace(&mut replay.is_deferred, true)
        })
    }

    /// Returns whether a session is deferred.
    pub(crate) fn is_deferred(&self, key: SlotKey) -> bool {
        self.get(key).is_some_and(|replay| replay.is_deferred)
    }

    /// Notes that events are planned again for a session that was deferred, of which `events` were
    /// counted as queued for it meanwhile. It goes live in the planning period `live_from` at the
    /// earliest.
    pub(crate) fn undefer(&mut self, key: SlotKey, events: u64, live_from: u64) {
        if let Some(replay) = self.get_mut(key) {
            let events = u32::try_from(events).expect("an event takes a word of memory at least");
            replay.is_deferred = false;
            replay.held += events;
            replay.stage.go_live_from(live_from);
        }
    }

    /// Takes a session that is to be told of events that the history does not have, and how many.
    pub(super) fn next_unstored(&mut self) -> Option<(SlotKey, u32)> {
        while let Some(key) = self.unstored.pop() {
            if let Some(replay) = self.get_mut(key) {
                return Some((key, std::mem::take(&mut replay.unstored)));
            }
        }
        None
    }

    /// Lets a session go live at a position: everything up to there is sent or in its backlog.
    pub(super) fn go_live(&mut self, key: SlotKey, fed: u64) {
        if let Some(replay) = self.get_mut(key) {
            assert!(fed >= replay.fed, "a session is fed forwards");
            replay.stage = Stage::Live;
            replay.fed = fed;
            self.settling.push_back((fed, key));
        }
    }

    /// Lets a session that has everything wait for a planning period.
    pub(super) fn await_period(&mut self, key: SlotKey, live_from: u64) {
        if let Some(replay) = self.get_mut(key)
            && !std::mem::replace(&mut replay.is_waiting, true)
        {
            self.waiting.push_back((live_from, key));
        }
    }

    /// Notes that the worker has taken its mail: what was posted before a session went live is in
    /// the fan-out now.
    pub(crate) fn mail_taken(&mut self) {
        self.settled = self.settling.len();
    }

    /// Takes the next session that is live and has dropped all that was replayed. `oldest` is the
    /// position of the oldest event in flight. The caller clears the session's bit.
    pub(crate) fn next_settled(&mut self, oldest: Option<u64>) -> Option<SlotKey> {
        while self.settled > 0
            && let Some(&(fed, key)) = self.settling.front()
            && oldest.is_none_or(|oldest| oldest > fed)
        {
            self.settling.pop_front();
            self.settled -= 1;
            if self.is_live_at(key, fed) {
                self.remove(key);
                return Some(key);
            }
        }
        None
    }

    /// Takes the next session to feed.
    pub(crate) fn next_ready(&mut self) -> Option<SlotKey> {
        while let Some(key) = self.ready.pop_front() {
            if let Some(replay) = self.get_mut(key) {
                replay.is_ready = false;
                return Some(key);
            }
        }
        None
    }

    /// Feeds the sessions that wait for a period up to the current one.
    pub(crate) fn period_reached(&mut self, period: u64) {
        while let Some(&(live_from, key)) = self.waiting.front()
            && live_from <= period
        {
            self.waiting.pop_front();
            if let Some(replay) = self.get_mut(key) {
                replay.is_waiting = false;
                self.feed_soon(key);
            }
        }
    }

    /// Returns whether a session is fed, or is about to be.
    pub(crate) fn is_fed(&self, key: SlotKey) -> bool {
        let replay = self.get(key);
        replay.is_some_and(|replay| replay.stage != Stage::Live)
    }

    /// Returns the number of sessions that can be fed now.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Returns whether no session has a replay.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns whether sessions wait for a planning period.
    pub(crate) fn awaits_period(&self) -> bool {
        !self.waiting.is_empty()
    }
}
