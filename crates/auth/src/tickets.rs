//! Tickets: secrets that log in as given ids.
//!
//! Owns the validity of tickets and the sessions that use them. The caller provides random numbers
//! and ends sessions.

mod elsewhere;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::identity::Identity;
use crate::scope::Scope;
use crate::time::UnixSeconds;

/// Most tickets at a time, of about 300 bytes each. Issuing another one is refused, because each of
/// them was promised to a client.
pub const TICKETS_MAX: usize = 1 << 20;

/// Most ids of one ticket: as many as a session may have.
pub const TICKET_IDS_MAX: usize = 128;

/// Longest time until the first use, in seconds: an hour.
pub const TICKET_TTL_SECONDS_MAX: u64 = 3600;

/// Time after the end of its session for which a ticket is valid for a reconnect, in seconds.
pub const RECONNECT_SECONDS: u64 = 120;

/// Time for which a ticket that another node uses is kept without news of it, in seconds: a day. A
/// client whose session is older gets a new ticket if it changes the node.
pub const ELSEWHERE_SECONDS: u64 = 24 * 3600;

/// Length of a ticket as text.
const TEXT_BYTES: usize = 22;

/// Issued tickets. A ticket must be used first within its ttl. Then it is bound to the session that
/// it opened: it is valid while that session lives, and for [`RECONNECT_SECONDS`] after its end.
///
/// A client reconnects with the same ticket, perhaps before the server has noticed that the last
/// connection has ended. So a ticket that is used while its session lives moves to the new session,
/// and the caller ends the old one: a ticket never has two sessions at a time.
///
/// Secrets are kept as hashes, so that the time of a look-up reveals nothing about them, and stored
/// data cannot be used to log in.
#[derive(Debug)]
pub struct Tickets {
    by_hash: HashMap<Hash, Ticket>,
    /// Tickets that are forgotten at a time, in the order of the times.
    deadlines: BTreeSet<(UnixSeconds, Hash)>,
    max: usize,
}

/// SHA-256 of the secret of a ticket, which identifies it to other nodes and cannot be used to log
/// in.
pub type Hash = [u8; 32];

#[derive(Debug)]
struct Ticket {
    ids: Arc<[Box<str>]>,
    issued: UnixSeconds,
    state: State,
}

/// Session of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The incarnation of the node.
    pub node: u64,
    /// The session, by its name on that node.
    pub session: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not in use: issued, or its session has ended. Valid until this time.
    Waiting(UnixSeconds),
    /// In use by this session.
    Bound {
        session: u64,
        /// Whether all nodes of the cluster have read that, if there is one.
        is_announced: bool,
    },
    /// In use by a session of another node. Forgotten at this time.
    Elsewhere { holder: Holder, until: UnixSeconds },
}

/// Result of using a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redeemed {
    /// The ids that the client logs in as.
    pub ids: Arc<[Box<str>]>,
    /// The session that had the ticket and must end now.
    pub superseded: Option<u64>,
    /// When the ticket was issued.
    pub issued: UnixSeconds,
    /// The name of the ticket for other nodes, and for [`Tickets::release`] when the session ends.
    pub hash: Hash,
}

/// Reason why a ticket is not issued or not accepted. Its `Display` is a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// There are [`TICKETS_MAX`] already.
    #[error("the server has issued too many tickets; try again in a moment")]
    Full,
    /// No id, or more than [`TICKET_IDS_MAX`].
    #[error("a ticket needs 1 to 128 ids")]
    Ids,
    /// A ttl of zero or of more than [`TICKET_TTL_SECONDS_MAX`].
    #[error("the ttl of a ticket is 1 second to 1 hour")]
    Ttl,
    /// The ticket was never issued, or is no longer valid.
    #[error(
        "The ticket is not good: it was not used in time, or its session ended more than two \
         minutes ago. Get a new one."
    )]
    Unknown,
}

impl Default for Tickets {
    fn default() -> Self {
        Self::with_max(TICKETS_MAX)
    }
}

impl Tickets {
    /// Returns an empty set for at most `max` tickets.
    pub fn with_max(max: usize) -> Self {
        Self {
            by_hash: HashMap::new(),
            deadlines: BTreeSet::new(),
            max,
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
        let ids = ids.into_iter().take(TICKET_IDS_MAX + 1).collect();
        if ttl_seconds == 0 || ttl_seconds > TICKET_TTL_SECONDS_MAX {
            return Err(TicketError::Ttl);
        }
        let ticket = Ticket {
            ids,
            issued: now,
            state: State::Waiting(now.plus(ttl_seconds)),
        };
        self.add(hash(&secret), ticket, now)?;
        Ok(text(&secret))
    }

    /// Adds a new ticket, unless there are too many.
    fn add(&mut self, hash: Hash, ticket: Ticket, now: UnixSeconds) -> Result<(), TicketError> {
        if ticket.ids.is_empty() || ticket.ids.len() > TICKET_IDS_MAX {
            return Err(TicketError::Ids);
        }
        self.forget_until(now);
        if self.by_hash.len() >= self.max {
            return Err(TicketError::Full);
        }
        self.deadlines
            .extend(ticket.state.until().map(|until| (until, hash)));
        self.by_hash.insert(hash, ticket);
        Ok(())
    }

    /// Returns the ids of a ticket without using it.
    ///
    /// # Errors
    ///
    /// [`TicketError::Unknown`] when it is not good, or no ticket at all.
    pub fn look_up(&self, text: &str, now: UnixSeconds) -> Result<Redeemed, TicketError> {
        let hash = hash(&secret(text).ok_or(TicketError::Unknown)?);
        let ticket = self.by_hash.get(&hash).ok_or(TicketError::Unknown)?;
        let superseded = match ticket.state {
            State::Waiting(until) | State::Elsewhere { until, .. } if until <= now => {
                return Err(TicketError::Unknown);
            }
            State::Waiting(_) | State::Elsewhere { .. } => None,
            State::Bound { session, .. } => Some(session),
        };
        Ok(Redeemed {
            ids: ticket.ids.clone(),
            superseded,
            issued: ticket.issued,
            hash,
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
        let bound = State::Bound {
            session,
            is_announced: false,
        };
        self.set_state(&found.hash, bound);
        Ok(found)
    }

    /// Notes that `session` has ended: its ticket is good for a reconnect for
    /// [`RECONNECT_SECONDS`] more. Returns whether it had the ticket: another session may have it
    /// by now.
    pub fn release(&mut self, hash: &Hash, session: u64, now: UnixSeconds) -> bool {
        self.forget_until(now);
        let state = self.by_hash.get(hash).map(|ticket| ticket.state);
        let had = matches!(state, Some(State::Bound { session: by, .. }) if by == session);
        if had {
            self.set_state(hash, State::Waiting(now.plus(RECONNECT_SECONDS)));
        }
        had
    }

    /// Revokes a ticket, so that it opens no further session. Its session, if it has one,
    /// continues.
    pub fn revoke(&mut self, hash: &Hash) {
        if let Some(ticket) = self.by_hash.remove(hash)
            && let Some(until) = ticket.state.until()
        {
            self.deadlines.remove(&(until, *hash));
        }
    }

    /// Returns the number of tickets that are valid or in use.
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Returns whether there is no ticket.
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// Removes the expired tickets. All operations do that, too.
    pub fn forget_until(&mut self, now: UnixSeconds) {
        while let Some(&(until, hash)) = self.deadlines.first()
            && until <= now
        {
            self.deadlines.pop_first();
            self.by_hash.remove(&hash);
        }
    }

    /// Changes the state of a ticket, and the time at which it is forgotten.
    fn set_state(&mut self, hash: &Hash, state: State) {
        let Some(ticket) = self.by_hash.get_mut(hash) else {
            return;
        };
        if let Some(until) = ticket.state.until() {
            self.deadlines.remove(&(until, *hash));
        }
        ticket.state = state;
        self.deadlines
            .extend(state.until().map(|until| (until, *hash)));
    }
}

impl State {
    /// Returns the time at which the ticket is forgotten; `None` while its session lives on this
    /// node.
    const fn until(self) -> Option<UnixSeconds> {
        match self {
            Self::Waiting(until) | Self::Elsewhere { until, .. } => Some(until),
            Self::Bound { .. } => None,
        }
    }
}

impl Redeemed {
    /// Returns the identity of the client: it may read the ids of the ticket, and has no subject.
    pub fn identity(&self) -> Identity {
        Identity {
            subject: None,
            scope: Scope::exact(self.ids.iter().map(|id| &**id)),
            publish: Scope::default(),
            expires: None,
            issued: Some(self.issued),
            token_id: None,
        }
    }
}

/// Parses a secret: 128 bits in base64url.
fn secret(text: &str) -> Option<[u8; 16]> {
    if text.len() != TEXT_BYTES {
        return None;
    }
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

/// Returns the text of the ticket with a secret.
pub fn text(secret: &[u8; 16]) -> String {
    URL_SAFE_NO_PAD.encode(secret)
}

/// Returns the hash of the secret of a ticket.
pub fn hash(secret: &[u8; 16]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, secret).as_ref());
    hash
}
