//! Leases: what is known of the identity behind a session, for its end.
//!
//! Owns when a session must end, and what a revocation finds. A session without a lease costs
//! nothing here. Must never end a session: that is the worker's.

/// Search for leases that run out, and for those that were revoked.
mod scan;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
use std::time::Duration;

use auth::UnixSeconds;
use auth::tickets;
use reactor::Tick;

use crate::limits::Limits;
use crate::stage::Stage;
use crate::table::SparseSlots;

pub(crate) use scan::LEASE_HORIZON_SECONDS;
use scan::LeaseScan;

/// Bytes of a lease. A million sessions that logged in by tokens take 16 MB.
const LEASE_BYTES_MAX: usize = 16;
const _: () = assert!(size_of::<Option<Lease>>() <= LEASE_BYTES_MAX);

/// Lease of a session. Kept by slot, from login to logout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    /// When the session ends at the latest, in seconds since 1970; [`Lease::NEVER`] for no end.
    expires: NonZeroU32,
    /// When the identity was issued, in seconds since 1970.
    issued: u32,
    /// The id that the client is.
    subject: Fingerprint,
    /// The token that it was proved by.
    token: Fingerprint,
}

/// Hash of a name, under a key of this run. Two names in four billion share one: a revocation may
/// then end a session too many, which logs in again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint(u32);

/// Maker of fingerprints. One for all workers of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fingerprints(RandomState);

impl Fingerprint {
    /// The fingerprint of no name.
    const NONE: Self = Self(0);
}

impl Fingerprints {
    /// Returns the fingerprint of a name.
    pub(crate) fn of(&self, name: &str) -> Fingerprint {
        Fingerprint((self.0.hash_one(name) as u32).max(1))
    }
}

impl Lease {
    const NEVER: NonZeroU32 = NonZeroU32::MAX;

    /// Makes the lease of a session that `identity` opens.
    pub(crate) fn of(identity: &auth::Identity, fingerprints: &Fingerprints) -> Self {
        let name = |name: &Option<Box<str>>| match name {
            Some(name) => fingerprints.of(name),
            None => Fingerprint::NONE,
        };
        let expires = identity.expires.map_or(u32::MAX, seconds);
        Self {
            expires: NonZeroU32::new(expires).unwrap_or(NonZeroU32::MIN),
            issued: identity.issued.map_or(0, seconds),
            subject: name(&identity.subject),
            token: name(&identity.token_id),
        }
    }

    /// Returns whether the identity was issued before `time`, or does not say when.
    pub(crate) const fn is_older(&self, time: UnixSeconds) -> bool {
        (self.issued as u64) < time.0
    }

    /// Returns whether the session must end before `time`.
    pub(crate) fn ends_before(&self, time: UnixSeconds) -> bool {
        self.expires != Self::NEVER && u64::from(self.expires.get()) < time.0
    }
}

/// Seconds that fit into a lease: until 2106.
fn seconds(time: UnixSeconds) -> u32 {
    u32::try_from(time.0).unwrap_or(u32::MAX)
}

/// Revoked identities, as a worker finds their sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revoked {
    /// Those of a subject that were issued before a time.
    Subject(Fingerprint, UnixSeconds),
    /// The one that a token proves.
    Token(Fingerprint),
}

impl Revoked {
    /// Returns whether the session with this lease must end.
    pub(crate) fn covers(&self, lease: &Lease) -> bool {
        match *self {
            Self::Subject(subject, before) => lease.subject == subject && lease.is_older(before),
            Self::Token(token) => lease.token == token,
        }
    }
}

/// Leases of a worker's sessions, by slot, and the search among them.
#[derive(Debug)]
pub(crate) struct Leases {
    slots: SparseSlots<Lease>,
    /// Tickets of the sessions that logged in by one.
    tickets: HashMap<u32, tickets::Hash>,
    scan: LeaseScan,
}

impl Leases {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            slots: SparseSlots::new(limits),
            tickets: HashMap::new(),
            scan: LeaseScan::default(),
        }
    }

    /// Adds the lease of the session in a slot, and the ticket that it logged in by.
    pub(crate) fn insert(&mut self, slot: u32, lease: Lease, ticket: Option<tickets::Hash>) {
        if let Some(ticket) = ticket {
            self.tickets.insert(slot, ticket);
        }
        debug_assert!(self.get(slot).is_none(), "a session has one lease");
        self.slots.insert(slot, lease);
    }

    /// Returns the lease of the session in a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&Lease> {
        self.slots.get(slot)
    }

    /// Removes what is left of the session in a slot, and returns its ticket.
    pub(crate) fn log_out(&mut self, slot: u32) -> Option<tickets::Hash> {
        self.remove(slot);
        self.tickets.remove(&slot)
    }

    /// Removes the lease of the session in a slot, which is about to end.
    pub(crate) fn remove(&mut self, slot: u32) {
        self.slots.remove(slot);
    }

    /// Returns the slots whose leases run out before their next visit.
    pub(crate) fn expired(&mut self, now: Tick, time: UnixSeconds) -> Vec<u32> {
        self.scan.expired(&self.slots, now, time)
    }

    /// Searches for sessions of a revoked identity in the next turns.
    pub(crate) fn search(&mut self, revoked: Revoked) {
        self.scan.search(revoked);
    }

    /// Goes on with the search, and returns the slots that it finds in this turn.
    pub(crate) fn revoked(&mut self, limits: &Limits) -> Vec<u32> {
        self.scan.revoked(&self.slots, limits.leases_per_turn)
    }
}

impl Stage for Leases {
    fn has_work(&self) -> bool {
        self.scan.is_searching()
    }

    fn next_in(&self, now: Tick, _connections: usize) -> Option<Duration> {
        (!self.slots.is_empty()).then(|| self.scan.next_in(now))
    }
}
