//! Table of all pairs of a worker, with what each stage needs: the driver, the counters, the
//! timers, the clock and the list of pairs to remove. Does not depend on any stage.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reactor::{Clock, Driver, Interest, RelayDriver, Slab, SlotKey, Tick, Wheel};

use crate::tcp::close_reason::CloseReason;
use crate::tcp::frontend::Frontend;
use crate::tcp::metrics::{Metric, WorkerCounters};
use crate::tcp::pair::{Direction, Pair, Phase, Side};
use crate::tcp::socket_id::SocketId;

/// Pair whose sockets and pipes are those of a driver.
pub(crate) type PairOf<D> = Pair<<D as Driver>::Socket, <D as RelayDriver>::Pipe>;

/// Table of all pairs of a worker. Lives as long as the worker.
pub(crate) struct PairTable<D: RelayDriver> {
    pub(crate) driver: D,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) clock: Clock,
    pairs: Slab<PairOf<D>>,
    timers: Wheel<SlotKey>,
    /// Pairs to remove when the turn ends. Their slots stay taken until then: a later signal of the
    /// same batch may name one, and must meet a closed pair.
    closed: VecDeque<(SlotKey, CloseReason)>,
}

/// Pair, with the driver and the counters.
pub(crate) struct Entry<'a, D: RelayDriver> {
    pub(crate) pair: &'a mut PairOf<D>,
    pub(crate) driver: &'a mut D,
    pub(crate) counters: &'a WorkerCounters,
    pub(crate) now: Tick,
}

impl<D: RelayDriver> PairTable<D> {
    /// Makes an empty table.
    pub(crate) fn new(driver: D, counters: Arc<WorkerCounters>) -> Self {
        Self {
            clock: Clock::new(&driver),
            driver,
            counters,
            pairs: Slab::default(),
            timers: Wheel::default(),
            closed: VecDeque::new(),
        }
    }

    /// Returns the time of this turn.
    pub(crate) const fn now(&self) -> Tick {
        self.clock.now
    }

    /// Returns whether there are no pairs.
    pub(crate) const fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the number of slots, used or not.
    pub(crate) const fn slots(&self) -> u32 {
        self.pairs.slots()
    }

    /// Adds a pair for a client, and starts to watch the client.
    ///
    /// # Errors
    ///
    /// Those of [`reactor::Driver::watch`]. The pair is in the table even then, and the caller
    /// closes it.
    pub(crate) fn insert(
        &mut self,
        frontend: &Arc<Frontend>,
        client: D::Socket,
        peer: SocketAddr,
    ) -> (SlotKey, io::Result<()>) {
        let key = self
            .pairs
            .insert(Pair::new(frontend, client, peer, self.clock.now));
        let client = &self.pairs.get(key).expect("just added").client;
        let token = SocketId::Pair(key, Side::Client).token();
        self.counters.add(Metric::Connections, 1);
        self.counters.add(Metric::Watches, 1);
        let watched = self.driver.watch(client, token, Interest::Readable);
        (key, watched)
    }

    /// Returns the pair with this key, unless it is closed.
    pub(crate) fn get(&mut self, key: SlotKey) -> Option<&mut PairOf<D>> {
        self.pairs
            .get_mut(key)
            .filter(|pair| pair.phase != Phase::Closed)
    }

    /// Returns the pair with this key, the driver and the counters, unless the pair is closed.
    pub(crate) fn entry(&mut self, key: SlotKey) -> Option<Entry<'_, D>> {
        let pair = self.pairs.get_mut(key)?;
        (pair.phase != Phase::Closed).then_some(Entry {
            pair,
            driver: &mut self.driver,
            counters: &self.counters,
            now: self.clock.now,
        })
    }

    /// Returns the pair in a slot, unless it is closed.
    pub(crate) fn at(&self, slot: u32) -> Option<(SlotKey, &PairOf<D>)> {
        self.pairs
            .at(slot)
            .filter(|(_, pair)| pair.phase != Phase::Closed)
    }

    /// Arms a timer for a pair. It is never cancelled: when it fires, the pair's phase decides.
    pub(crate) fn arm_timer(&mut self, key: SlotKey, delay: Duration) {
        self.timers.add(self.clock.now.after(delay), key);
    }

    /// Returns the time until a timer fires.
    pub(crate) fn next_timer(&self, now: Tick) -> Option<Duration> {
        self.timers.sleep(now)
    }

    /// Moves the pairs whose timers have fired to `due`.
    pub(crate) fn expire(&mut self, due: &mut Vec<SlotKey>) {
        self.timers.expire(self.clock.now, due);
    }

    /// Closes a pair. It is removed when the turn ends.
    pub(crate) fn close(&mut self, key: SlotKey, reason: CloseReason) {
        if let Some(pair) = self.get(key) {
            pair.phase = Phase::Closed;
            self.closed.push_back((key, reason));
        }
    }

    /// Removes and returns a pair that was closed in this turn.
    pub(crate) fn remove_closed(&mut self) -> Option<(PairOf<D>, CloseReason)> {
        let (key, reason) = self.closed.pop_front()?;
        let pair = self.pairs.remove(key).expect("closed once, removed once");
        Some((pair, reason))
    }
}

impl<D: RelayDriver> Entry<'_, D> {
    /// Watches the client for room to send from now on. A backend is watched for it from the start.
    ///
    /// # Errors
    ///
    /// Those of [`reactor::Driver::watch_writable`].
    pub(crate) fn watch_client_writable(&mut self, key: SlotKey) -> io::Result<()> {
        if std::mem::replace(&mut self.pair.client_writable_watched, true) {
            return Ok(());
        }
        // Both kinds of signals are requested at once.
        self.pair.up.input_paused = false;
        let token = SocketId::Pair(key, Side::Client).token();
        self.counters.add(Metric::Watches, 1);
        self.driver.watch_writable(&self.pair.client, token)
    }

    /// Stops or resumes signals of input from the source of a direction, unless it is done already.
    ///
    /// # Errors
    ///
    /// Those of [`reactor::RelayDriver::pause_input`].
    pub(crate) fn pause_input(
        &mut self,
        key: SlotKey,
        direction: Direction,
        paused: bool,
    ) -> io::Result<()> {
        if self.pair.flow(direction).input_paused == paused {
            return Ok(());
        }
        let side = direction.source();
        let writable_watched = side == Side::Backend || self.pair.client_writable_watched;
        if let Some(socket) = self.pair.socket(side) {
            let token = SocketId::Pair(key, side).token();
            self.counters.add(Metric::Watches, 1);
            self.driver
                .pause_input(socket, token, writable_watched, paused)?;
            self.pair.flow(direction).input_paused = paused;
        }
        Ok(())
    }
}
