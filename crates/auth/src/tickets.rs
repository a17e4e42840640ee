//! Tickets: secrets that log in as given ids.
//!
//! Owns which ticket is good for which session, and for how long. Must never make a random number
//! or end a session: both are the caller's.

mod deadlines;

use core::fmt;
use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::identity::Identity;
use crate::scope::Scope;
use crate::time::UnixSeconds;
use deadlines::Deadlines;

/// Most tickets at a time, over all ids: about 300 bytes each. Issuing one beyond that is refused,
/// as each of the others was promised to a client.
pub const TICKETS_MAX: usize = 1 << 20;

/// Most ids of one ticket: as many as a session may have.
pub const TICKET_IDS_MAX: usize = 128;

/// Longest time until the first use, in seconds: an hour.
pub const TICKET_TTL_SECONDS_MAX: u64 = 3600;

/// Time after the end of its session for which a ticket is good for a reconnect, in seconds.
pub const RECONNECT_SECONDS: u64 = 120;

/// Length of a ticket as text.
const TEXT_BYTES: usize = 22;

/// Tickets that were issued. A ticket is first used within its ttl. Then it is bound to the session
/// that it opened: good while that lives, and [`RECONNECT_SECONDS`] after its end.
///
/// A client reconnects with the same ticket, perhaps before the server has noticed the end of the
/// connection before. So a ticket that is used while its session lives goes over to the new
/// session, and the caller ends the old one: a ticket is never good for two sessions at a time.
///
/// Secrets are kept as hashes. So the time of a look-up tells nothing about them, and nothing that
/// is kept can log in.
#[derive(Debug)]
pub struct Tickets {
    by_hash: HashMap<Hash, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    deadlines: Deadlines,
    max: usize,
}

type Hash = [u8; 32];

/// Name of a ticket within [`Tickets`], which is no secret. It stays good when the ticket is gone,
/// and then names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TicketKey {
    index: u32,
    generation: u32,
}

/// Place of a ticket.
#[derive(Debug)]
struct Slot {
    generation: u32,
    /// Whether the deadlines hold an entry for it: one at most, so that they are bounded too.
    scheduled: bool,
    ticket: Option<Ticket>,
}

#[derive(Debug)]
struct Ticket {
    hash: Hash,
    ids: Arc<[Box<str>]>,
    issued: UnixSeconds,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not in use: issued, or its session has ended. Good until then.
    Waiting(UnixSeconds),
    /// In use by this session.
    Bound(u64),
}

/// What a ticket was good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redeemed {
    /// The ticket, for [`Tickets::release`] when the session ends.
    pub ticket: TicketKey,
    /// The ids that the client logs in as.
    pub ids: Arc<[Box<str>]>,
    /// The session that had the ticket and must end now.
    pub superseded: Option<u64>,
    /// When the ticket was issued.
    pub issued: UnixSeconds,
}

/// Reason why a ticket is not issued or not accepted. Its `Display` is a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketError {
    /// There are [`TICKETS_MAX`] already.
    Full,
    /// No id, or more than [`TICKET_IDS_MAX`].
    Ids,
    /// A ttl of zero or of more than [`TICKET_TTL_SECONDS_MAX`].
    Ttl,
    /// The ticket was never issued, or is no longer good.
    Unknown,
}

impl Default for Tickets {
    fn default() -> Self {
        Self::with_max(TICKETS_MAX)
    }
}

impl Tickets {
    /// Makes an empty set of at most `max` tickets.
    pub fn with_max(max: usize) -> Self {
        Self {
            by_hash: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            deadlines: Deadlines::default(),
            max: max.min(u32::MAX as usize),
        }
    }

    /// Issues a ticket for `ids`, to be used within `ttl_seconds`, and returns its text. `secret`
    /// is fresh from the random number generator of the system.
    ///
    /// # Errors
    ///
    /// When there are too many tickets, when there is no id or too many, or when the ttl is zero or
    /// too long.
    pub fn issue(
        &mut self,
        secret: [u8; 16],
        ids: impl IntoIterator<Item = Box<str>>,
        ttl_seconds: u64,
        now: UnixSeconds,
    ) -> Result<String, TicketError> {
        let ids: Arc<[Box<str>]> = ids.into_iter().take(TICKET_IDS_MAX + 1).collect();
        if ids.is_empty() || ids.len() > TICKET_IDS_MAX {
            return Err(TicketError::Ids);
        }
        if ttl_seconds == 0 || ttl_seconds > TICKET_TTL_SECONDS_MAX {
            return Err(TicketError::Ttl);
        }
        self.forget_until(now);
        if self.free.is_empty() && self.slots.len() >= self.max {
            return Err(TicketError::Full);
        }
        let hash = hash(&secret);
        let until = now.plus(ttl_seconds);
        let ticket = Ticket {
            hash,
            ids,
            issued: now,
            state: State::Waiting(until),
        };
        let index = self.place(ticket);
        self.by_hash.insert(hash, index);
        self.schedule(index, until, now);
        Ok(URL_SAFE_NO_PAD.encode(secret))
    }

    /// Returns what a ticket is good for, and does not use it.
    ///
    /// # Errors
    ///
    /// [`TicketError::Unknown`] when it is not good, or no ticket at all.
    pub fn look_up(&self, text: &str, now: UnixSeconds) -> Result<Redeemed, TicketError> {
        let hash = hash(&secret(text).ok_or(TicketError::Unknown)?);
        let index = *self.by_hash.get(&hash).ok_or(TicketError::Unknown)?;
        let slot = &self.slots[index as usize];
        let ticket = slot.ticket.as_ref().ok_or(TicketError::Unknown)?;
        let superseded = match ticket.state {
            State::Waiting(until) if until <= now => return Err(TicketError::Unknown),
            State::Waiting(_) => None,
            State::Bound(held_by) => Some(held_by),
        };
        Ok(Redeemed {
            ticket: TicketKey {
                index,
                generation: slot.generation,
            },
            ids: ticket.ids.clone(),
            superseded,
            issued: ticket.issued,
        })
    }

    /// Uses a ticket for a new session, which the caller names.
    ///
    /// # Errors
    ///
    /// [`TicketError::Unknown`] when it is not good, or no ticket at all.
    pub fn redeem(
        &mut self,
        text: &str,
        session: u64,
        now: UnixSeconds,
    ) -> Result<Redeemed, TicketError> {
        self.forget_until(now);
        let mut found = self.look_up(text, now)?;
        found.superseded = found.superseded.filter(|&held_by| held_by != session);
        if let Some(ticket) = &mut self.slots[found.ticket.index as usize].ticket {
            ticket.state = State::Bound(session);
        }
        Ok(found)
    }

    /// Notes that `session` has ended: its ticket is good for a reconnect for
    /// [`RECONNECT_SECONDS`] more. Does nothing when another session has it by now.
    pub fn release(&mut self, ticket: TicketKey, session: u64, now: UnixSeconds) {
        self.forget_until(now);
        let TicketKey { index, generation } = ticket;
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        if slot.generation != generation {
            return;
        }
        if let Some(ticket) = &mut slot.ticket
            && ticket.state == State::Bound(session)
        {
            let until = now.plus(RECONNECT_SECONDS);
            ticket.state = State::Waiting(until);
            self.schedule(index, until, now);
        }
    }

    /// Takes a ticket back: it opens no session any more. Its session, if it has one, goes on.
    pub fn revoke(&mut self, ticket: TicketKey) {
        let slot = self.slots.get(ticket.index as usize);
        if slot.is_some_and(|slot| slot.generation == ticket.generation) {
            self.remove(ticket.index);
        }
    }

    /// Returns the number of tickets that are good or in use.
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Returns whether there is no ticket.
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// Forgets the tickets that are no longer good. All operations do so too, in amortised constant
    /// time.
    pub fn forget_until(&mut self, now: UnixSeconds) {
        while let Some(index) = self.deadlines.pop(now) {
            let slot = &mut self.slots[index as usize];
            slot.scheduled = false;
            match slot.ticket.as_ref().map(|ticket| ticket.state) {
                Some(State::Waiting(until)) if until <= now => self.remove(index),
                // It was used since, and released again.
                Some(State::Waiting(until)) => self.schedule(index, until, now),
                Some(State::Bound(_)) => {}
                None => self.free.push(index),
            }
        }
    }

    /// Puts a ticket into a free slot.
    fn place(&mut self, ticket: Ticket) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize].ticket = Some(ticket);
            return index;
        }
        self.slots.push(Slot {
            generation: 0,
            scheduled: false,
            ticket: Some(ticket),
        });
        (self.slots.len() - 1) as u32
    }

    /// Asks to be reminded of a ticket, unless that is under way.
    fn schedule(&mut self, index: u32, until: UnixSeconds, now: UnixSeconds) {
        let slot = &mut self.slots[index as usize];
        if !slot.scheduled {
            slot.scheduled = true;
            self.deadlines.add(index, until, now);
        }
    }

    fn remove(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let Some(ticket) = slot.ticket.take() else {
            return;
        };
        slot.generation = slot.generation.wrapping_add(1);
        // A slot whose reminder is under way becomes free when that comes.
        if !slot.scheduled {
            self.free.push(index);
        }
        self.by_hash.remove(&ticket.hash);
    }
}

impl Redeemed {
    /// Returns the identity of the client: it may read the ids of the ticket, and is none of them
    /// in particular.
    pub fn identity(&self) -> Identity {
        Identity {
            subject: None,
            scope: Scope::exact(self.ids.iter().map(|id| &**id)),
            expires: None,
            issued: Some(self.issued),
            token_id: None,
        }
    }
}

/// Returns the secret that a text spells, if it is 128 bits in base64url.
fn secret(text: &str) -> Option<[u8; 16]> {
    if text.len() != TEXT_BYTES {
        return None;
    }
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

fn hash(secret: &[u8; 16]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, secret).as_ref());
    hash
}

impl fmt::Display for TicketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the server has issued too many tickets; try again in a moment",
            Self::Ids => "a ticket needs 1 to 128 ids",
            Self::Ttl => "the ttl of a ticket is 1 second to 1 hour",
            Self::Unknown => {
                "The ticket is not good: it was not used in time, or its session ended more than \
                 two minutes ago. Get a new one."
            }
        })
    }
}

impl core::error::Error for TicketError {}
