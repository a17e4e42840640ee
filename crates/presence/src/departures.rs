//! Departures: how long an id stays online after its last session.

use std::time::Duration;

use graph::Key;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::{Edge, KeySet, Millis};

/// Time that one bucket of the wheel stands for. Departures are as exact as this, which is how
/// often the comings and goings are taken.
pub const STEP: Duration = Duration::from_millis(100);

/// Longest delay: a bucket of the wheel costs 24 bytes.
pub const DELAY_MAX: Duration = Duration::from_secs(600);

/// In place of a deadline: the id has come back.
const RETURNED: u32 = u32::MAX;

/// Fewest ids away at once that are a storm.
const STORM_MIN: usize = 1_000;

/// A storm begins when one in so many of the ids that are here is away.
const STORM_BEGINS: usize = 2;

/// A storm goes on while one in so many of the ids that are here is away.
const STORM_GOES_ON: usize = 8;

/// Longest storm, in delays.
const STORM_DELAYS: u32 = 5;

/// Ids of one node that are here: they have a session, or had one less than the delay ago. Owned by
/// the presence thread.
///
/// An id that has just left costs a deadline by key and a place in a wheel, 24 bytes, however often
/// it comes and goes. One that is here costs a bit.
///
/// When half of the ids leave at once, a proxy or a network has most likely failed, and they need
/// longer than the delay to come back. In such a *storm* an id whose delay is over gets another
/// one, until seven in eight are back, and one delay more. So an id is told to be offline after at
/// most six delays.
///
/// A departure brings a reference to its key, which keeps an interned key from being given to
/// another id. It is given back by `release` when the id returns, and with the edge otherwise.
#[derive(Debug)]
pub struct Departures {
    /// In steps.
    delay: u32,
    /// The step up to which departures were looked at.
    now: u32,
    here: KeySet,
    /// Those who have left, and those who have returned since and are still in the wheel.
    deadlines: HashMap<Key, u32>,
    /// Every key of `deadlines` once: in the bucket of its deadline, or in an earlier one.
    wheel: Box<[Vec<Key>]>,
    /// Number of ids that have left and not returned.
    away: usize,
    storm: Option<Storm>,
}

/// Most ids have left at once. Kept until few are away, so that the same ids are no second storm.
#[derive(Debug, Clone, Copy)]
struct Storm {
    /// The step from which departures are told again.
    calm: u32,
    /// The step from which `calm` is not put off.
    ends: u32,
}

impl Departures {
    /// Makes it for a delay, which counts up to [`DELAY_MAX`].
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

    /// Takes an arrival: `key` has a session. Returns the edge, if it was not here.
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

    /// Takes a departure, with a reference to its key: `key` has no session any more. Returns an
    /// edge if it was not here: it has come and gone since the last time.
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
            Entry::Occupied(mut occupied) if *occupied.get() == RETURNED => {
                occupied.insert(deadline);
                self.away += 1;
            }
            Entry::Occupied(_) => release(key),
        }
        is_new.then_some(Edge { key, online: true })
    }

    /// Lets the time pass. Calls `gone` with the edge of each id whose delay is over; the reference
    /// to its key goes with it.
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
                    // It has returned and left again, or gets another delay.
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

    /// Begins a storm, puts off its end, or forgets it.
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

    /// Ids that are here.
    pub const fn here(&self) -> &KeySet {
        &self.here
    }

    /// Number of ids that have left and are within their delay, or have returned within it.
    pub fn leaving(&self) -> usize {
        self.deadlines.len()
    }

    /// Bytes that those who have left take.
    pub fn leaving_bytes(&self) -> usize {
        let wheel = self.wheel.iter().map(|bucket| bucket.capacity());
        self.deadlines.allocation_size() + wheel.sum::<usize>() * size_of::<Key>()
    }
}
