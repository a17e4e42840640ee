//! Leases: what is known of the identity behind a session, for its end.
//!
//! Owns when a session must end, and what a revocation finds. A session without a lease costs
//! nothing here. Must never end a session: that is the worker's.

/// Search for leases that run out, and for those that were revoked.
mod scan;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use auth::UnixSeconds;
use auth::tickets::TicketKey;

use crate::limits::SLOTS_PER_SHELF;

pub(crate) use scan::{LEASE_HORIZON_SECONDS, LeaseScan};

/// Bytes of a lease. A million sessions that logged in by tokens take 16 MB.
const LEASE_BYTES_MAX: usize = 16;
const _: () = assert!(size_of::<Lease>() <= LEASE_BYTES_MAX);

/// Lease of a session. Kept by slot, from login to logout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    /// When the session ends at the latest, in seconds since 1970; [`Lease::NEVER`] for no end.
    expires: u32,
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
    const NEVER: u32 = u32::MAX;
    /// Marks a slot without a lease.
    const VACANT: Self = Self {
        expires: 0,
        issued: 0,
        subject: Fingerprint::NONE,
        token: Fingerprint::NONE,
    };

    /// Makes the lease of a session that `identity` opens.
    pub(crate) fn of(identity: &auth::Identity, fingerprints: &Fingerprints) -> Self {
        let name = |name: &Option<Box<str>>| match name {
            Some(name) => fingerprints.of(name),
            None => Fingerprint::NONE,
        };
        let expires = identity.expires.map_or(Self::NEVER, seconds);
        Self {
            expires: expires.max(1),
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
    pub(crate) const fn ends_before(&self, time: UnixSeconds) -> bool {
        self.expires != Self::NEVER && (self.expires as u64) < time.0
    }
}

/// Seconds that fit into a lease: until 2106.
fn seconds(time: UnixSeconds) -> u32 {
    u32::try_from(time.0).unwrap_or(Lease::NEVER)
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

/// Leases of a worker's sessions, by slot. Slots share shelves, which exist while one of their
/// slots has a lease.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    shelves: Vec<Option<Shelf>>,
    count: usize,
    /// Tickets of the sessions that logged in by one.
    tickets: HashMap<u32, TicketKey>,
}

#[derive(Debug)]
struct Shelf {
    leases: Box<[Lease]>,
    count: u32,
}

impl Leases {
    /// Returns whether no session has a lease.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns a number above the slots of all leases.
    pub(crate) const fn slots(&self) -> u32 {
        self.shelves.len() as u32 * SLOTS_PER_SHELF
    }

    /// Adds the lease of the session in a slot, and the ticket that it logged in by.
    pub(crate) fn insert(&mut self, slot: u32, lease: Lease, ticket: Option<TicketKey>) {
        if let Some(ticket) = ticket {
            self.tickets.insert(slot, ticket);
        }
        let number = (slot / SLOTS_PER_SHELF) as usize;
        if self.shelves.len() <= number {
            self.shelves.resize_with(number + 1, || None);
        }
        let shelf = self.shelves[number].get_or_insert_with(|| Shelf {
            leases: vec![Lease::VACANT; SLOTS_PER_SHELF as usize].into_boxed_slice(),
            count: 0,
        });
        let place = &mut shelf.leases[(slot % SLOTS_PER_SHELF) as usize];
        debug_assert_eq!(*place, Lease::VACANT, "a session has one lease");
        *place = lease;
        shelf.count += 1;
        self.count += 1;
    }

    /// Returns the lease of the session in a slot.
    pub(crate) fn get(&self, slot: u32) -> Option<&Lease> {
        let shelf = self.shelves.get((slot / SLOTS_PER_SHELF) as usize)?;
        let lease = &shelf.as_ref()?.leases[(slot % SLOTS_PER_SHELF) as usize];
        (*lease != Lease::VACANT).then_some(lease)
    }

    /// Removes what is left of the session in a slot, and returns its ticket.
    pub(crate) fn log_out(&mut self, slot: u32) -> Option<TicketKey> {
        self.remove(slot);
        self.tickets.remove(&slot)
    }

    /// Removes the lease of the session in a slot, which is about to end.
    pub(crate) fn remove(&mut self, slot: u32) {
        let place = self.shelves.get_mut((slot / SLOTS_PER_SHELF) as usize);
        let Some(Some(shelf)) = place else {
            return;
        };
        let lease = &mut shelf.leases[(slot % SLOTS_PER_SHELF) as usize];
        if *lease == Lease::VACANT {
            return;
        }
        *lease = Lease::VACANT;
        shelf.count -= 1;
        self.count -= 1;
        if shelf.count == 0
            && let Some(place) = place
        {
            *place = None;
        }
        if self.count == 0 {
            self.shelves = Vec::new();
        }
    }
}
