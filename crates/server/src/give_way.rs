//! Search for the largest buffers of a worker, which give way first when all together exceed their
//! bound.
//!
//! A walk over all slots, a slice in each turn, finds the largest of each kind. Must never free
//! anything: it says in which order that is to be done.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use reactor::{Driver, Tenths, Tick};

use crate::limits::{FULL_SOCKET_PATIENCE, GIVE_WAY_RETRY_INTERVAL, Limits};
use crate::stage::Stage;
use crate::table::{ConnectionTable, Phase};

/// Buffers to be freed, in this order: first those of sessions, by their policy; then input that
/// has not arrived whole; last, connections whose sockets take nothing, as only their end frees
/// what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BufferKind {
    Backlog,
    Input,
    FullSocket,
}

/// Buffer that is to be freed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) kind: BufferKind,
    pub(crate) slot: u32,
    /// Its size when it was found.
    pub(crate) bytes: usize,
}

/// Buffers among which a search looks for the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of them.
    All,
    /// Input that has not arrived whole, and nothing else.
    Input,
}

/// Search for the largest buffers, and those that it has found.
#[derive(Debug)]
pub(crate) struct LargestBuffers {
    scope: Scope,
    walk: Option<Walk>,
    /// What was found, the next one last.
    found: Vec<Candidate>,
    /// When to search again after a search that found nothing.
    retry_at: Option<Tick>,
}

/// Walk over all slots.
#[derive(Debug, Default)]
struct Walk {
    next: u32,
    backlogs: Largest,
    inputs: Largest,
    full_sockets: Largest,
}

/// Sizes, ages and slots of the largest buffers of a kind, the smallest of them on top. Of equal
/// ones, the older counts as larger.
#[derive(Debug, Default)]
struct Largest(BinaryHeap<Reverse<(usize, Reverse<u64>, u32)>>);

impl Largest {
    fn push(&mut self, bytes: usize, since: Tenths, slot: u32, limits: &Limits) {
        self.0.push(Reverse((bytes, Reverse(since.tick().0), slot)));
        if self.0.len() > limits.largest_buffers_max {
            self.0.pop();
        }
    }

    /// Returns the buffers, the largest last.
    fn ascending(self, kind: BufferKind) -> impl Iterator<Item = Candidate> {
        let descending = self.0.into_sorted_vec();
        let candidate = move |Reverse((bytes, _, slot))| Candidate { kind, slot, bytes };
        descending.into_iter().rev().map(candidate)
    }
}

impl Stage for LargestBuffers {
    fn has_work(&self) -> bool {
        self.walk.is_some() || !self.found.is_empty()
    }

    fn next_in(&self, now: Tick, _connections: usize) -> Option<Duration> {
        self.retry_at.map(|retry_at| retry_at.since(now))
    }
}

impl LargestBuffers {
    pub(crate) const fn new(scope: Scope) -> Self {
        Self {
            scope,
            walk: None,
            found: Vec::new(),
            retry_at: None,
        }
    }

    /// Ends the search: all buffers are within their bound.
    pub(crate) fn end(&mut self) {
        *self = Self::new(self.scope);
    }

    /// Returns whether the search has found nothing to be freed, and waits.
    pub(crate) const fn waits(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Takes the next buffer to be freed. When all that a search has found is taken, another
    /// begins: at once, or after a while if it has found nothing. `input_bytes` returns the bytes
    /// of input that are kept for a slot.
    pub(crate) fn next<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        input_bytes: impl Fn(u32) -> usize,
    ) -> Option<Candidate> {
        if let Some(found) = self.found.pop() {
            return Some(found);
        }
        let now = table.clock.now;
        if self.retry_at.is_some_and(|retry_at| retry_at > now) {
            return None;
        }
        self.retry_at = None;
        let mut walk = self.walk.take().unwrap_or_default();
        if !walk.advance(table, self.scope, input_bytes) {
            self.walk = Some(walk);
            return None;
        }
        self.found = walk.in_order();
        if self.found.is_empty() {
            self.retry_at = Some(now.after(GIVE_WAY_RETRY_INTERVAL));
        }
        self.found.pop()
    }
}

impl Walk {
    /// Visits a turn's worth of slots. Returns whether all have been visited.
    fn advance<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        scope: Scope,
        input_bytes: impl Fn(u32) -> usize,
    ) -> bool {
        let end = (self.next + table.limits.buffer_slots_per_turn).min(table.slots());
        for slot in self.next..end {
            let Some((key, connection)) = table.at(slot) else {
                continue;
            };
            if scope == Scope::All
                && connection.blocked
                && let Some(backlog) = table.backlogs().get(slot)
            {
                let stalled_for = backlog.stalled_for(table.clock.now);
                if table.policy_that_frees(key).is_some() {
                    self.backlogs
                        .push(backlog.cost(), connection.since, slot, table.limits);
                } else if stalled_for >= FULL_SOCKET_PATIENCE {
                    self.full_sockets
                        .push(backlog.cost(), connection.since, slot, table.limits);
                }
            }
            // The input of a connection that ends goes with it, and not earlier.
            let is_ending = matches!(connection.phase, Phase::Ending { .. } | Phase::Closed);
            let input = if is_ending { 0 } else { input_bytes(slot) };
            if input > 0 {
                self.inputs
                    .push(input, connection.since, slot, table.limits);
            }
        }
        self.next = end;
        end == table.slots()
    }

    /// Returns what was found of the first kind of which there is any, the largest last.
    fn in_order(self) -> Vec<Candidate> {
        let kinds = [
            (BufferKind::Backlog, self.backlogs),
            (BufferKind::Input, self.inputs),
            (BufferKind::FullSocket, self.full_sockets),
        ];
        let mut found = kinds
            .into_iter()
            .filter(|(_, largest)| !largest.0.is_empty());
        found.next().map_or_else(Vec::new, |(kind, largest)| {
            largest.ascending(kind).collect()
        })
    }
}
