//! Departures: the delay for which an id stays online after its last session.

use std::time::Duration;

use graph::Key;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::{Edge, KeySet, Millis};

/// Time of one bucket of the timer wheel: the resolution of departures, and the interval at which
/// the presence thread runs.
pub const STEP: Duration = Duration::from_millis(100);

/// Longest delay. Each step of it costs a bucket of 24 bytes.
pub const DELAY_MAX: Duration = Duration::from_secs(600);

/// Marks an id that has returned, in place of a deadline.
const RETURNED: u32 = u32::MAX;

/// Fewest ids that must be away at once for a storm.
const STORM_MIN: usize = 1_000;

/// A storm begins when one in this many of the ids that are here is away.
const STORM_BEGINS: usize = 2;

/// A storm continues while one in this many of the ids that are here is away.
const STORM_GOES_ON: usize = 8;

/// Longest storm, in delays.
const STORM_DELAYS: u32 = 5;

/// Ids that are *here*: they have a session on this node, or had one less than the delay ago. Owned
/// by the presence thread.
///
/// An id that is here costs a bit. One that is *away*, because its last session has ended, costs a
/// deadline and an entry of a timer wheel, 24 bytes, however often it comes and goes.
///
/// When half of the ids leave at once, a proxy or a network has most likely failed, and they need
/// longer than the delay to reconnect. During such a *storm*, and for one more delay after it, an
/// id whose delay is over gets another one. A storm ends when seven in eight ids are back, or after
/// five delays. So an id is offline after six delays at the latest.
///
/// A departure owns a reference to its key, which keeps an interned key from being given to another
/// id. The reference is passed to `release` when the id returns; otherwise the edge owns it.
#[derive(Debug)]
pub struct Departures {
    /// The delay in steps.
    delay: u32,
    /// The step up to which deadlines were handled.
    now: u32,
    here: KeySet,
    /// Deadlines, in steps, of the ids that are away, and of those that have returned and are still
    /// in the wheel.
    deadlines: HashMap<Key, u32>,
    /// Timer wheel: each key of `deadlines` once, in the bucket of its deadline or an earlier one.
    wheel: Box<[Vec<Key>]>,
    /// Number of ids that are away.
    away: usize,
    storm: Option<Storm>,
}

/// A storm. Kept until few ids are away, so that the same ids do not begin a second one.
#[derive(Debug, Clone, Copy)]
struct Storm {
    /// The step from which ids go offline again.
    calm: u32,
    /// The step from which `calm` is not postponed any more.
    ends: u32,
}

impl Departures {
    /// Returns an empty state for a delay of at most [`DELAY_MAX`]; a longer one is cut to it.
    pub fn new(delay: Duration) -> Self {
        let steps = delay.min(DELAY_MAX).as_millis().div_ceil(STEP.as_millis());
        let delay = (steps as u32).max(1);
        Self {
            delay,
            now: 0,
            here: KeySet::default(),
            deadlines: HashMap::new(),
            wheel: (0..=delay).map(|_| Vec::new()).collect(),
            away: 0,
            storm: None,
        }
    }

    /// Handles that `key` has got its first session. Returns an edge if it was not here.
    pub fn came(&mut self, key: Key, mut release: impl FnMut(Key)) -> Option<Edge> {
        if let Some(deadline) = self.deadlines.get_mut(&key)
            && *deadline != RETURNED
        {
            *deadline = RETURNED;
            self.away -= 1;
            release(key);
        }
        let is_new = self.here.insert(key);
        is_new.then_some(Edge { key, online: true })
    }

    /// Handles that `key` has lost its last session. The caller passes a reference to `key`.
    /// Returns an online edge if it was not here, because it has come and gone since the last step.
    pub fn left(&mut self, key: Key, mut release: impl FnMut(Key)) -> Option<Edge> {
        let is_new = self.here.insert(key);
        let deadline = self.now + self.delay;
        match self.deadlines.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(deadline);
                let bucket = deadline as usize % self.wheel.len();
                self.wheel[bucket].push(key);
                self.away += 1;
            }
            Entry::Occupied(mut occupied) => match occupied.insert(deadline) {
                RETURNED => self.away += 1,
                // It was away, and has come and gone since the last step.
                _ => release(key),
            },
        }
        is_new.then_some(Edge { key, online: true })
    }

    /// Advances the time to `now`. Calls `gone` with the edge of each id whose delay is over. The
    /// edge owns the reference to its key.
    pub fn advance(&mut self, now: Millis, mut gone: impl FnMut(Edge)) {
        let now = u32::try_from(now.0 / STEP.as_millis() as u64).unwrap_or(RETURNED - 1);
        while self.now < now {
            self.now += 1;
            self.look_for_storm();
            let is_storm = self.storm.is_some_and(|storm| self.now < storm.calm);
            let bucket = self.now as usize % self.wheel.len();
            if self.wheel[bucket].is_empty() {
                continue;
            }
            for key in std::mem::take(&mut self.wheel[bucket]) {
                match self.deadlines.get_mut(&key) {
                    Some(deadline) if *deadline <= self.now && !is_storm => {
                        self.deadlines.remove(&key);
                        self.away -= 1;
                        self.here.remove(key);
                        gone(Edge { key, online: false });
                    }
                    // The id has returned and left again, or gets another delay.
                    Some(deadline) if *deadline != RETURNED => {
                        if *deadline <= self.now {
                            *deadline = self.now + self.delay;
                        }
                        let bucket = *deadline as usize % self.wheel.len();
                        self.wheel[bucket].push(key);
                    }
                    _ => {
                        self.deadlines.remove(&key);
                    }
                }
            }
            if self.deadlines.is_empty() {
                self.deadlines.shrink_to(0);
                self.here.shrink();
            }
        }
    }

    /// Begins a storm, postpones its end, or ends it.
    fn look_for_storm(&mut self) {
        let is_one_in = |parts| self.away >= STORM_MIN && self.away * parts >= self.here.len();
        let calm = self.now + self.delay;
        match &mut self.storm {
            None if is_one_in(STORM_BEGINS) => {
                let ends = self.now + STORM_DELAYS * self.delay;
                self.storm = Some(Storm { calm, ends });
            }
            Some(storm) if is_one_in(STORM_GOES_ON) && self.now < storm.ends => storm.calm = calm,
            Some(storm) if storm.calm <= self.now && !is_one_in(STORM_GOES_ON) => {
                self.storm = None;
            }
            _ => {}
        }
    }

    /// Returns the ids that are here.
    pub const fn here(&self) -> &KeySet {
        &self.here
    }

    /// Returns the number of ids that are away, or have returned and are still in the wheel.
    pub fn leaving(&self) -> usize {
        self.deadlines.len()
    }
}
