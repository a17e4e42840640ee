//! Identity on the data path: who may open which session.
//!
//! Owns the order of the checks: a request names ids, carries a proof of identity, and is let in
//! only if the proof is good for each id. Nothing is interned before that. What is remembered of
//! identities is shared by all workers; none of it is on the path of an event.

/// Credentials of a request.
mod credential;
/// Reasons to refuse a session, and the answers.
mod denial;
/// Fetches of key sets for unknown keys.
mod key_fetch;
/// Requests that wait for key sets.
mod awaiting_keys;
/// Tickets that several nodes share.
mod shared_tickets;

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use auth::{Bans, Identity, Policy, Revocations, Tickets, TokenError, UnixSeconds};
use graph::Id;
use parking_lot::{Mutex, RwLock};
use wire::head::Request;
use wire::target::{self, IdsError};

use crate::lease::{Fingerprints, LEASE_HORIZON_SECONDS};
use crate::login_check::LoginChecker;

pub(crate) use awaiting_keys::AwaitingKeys;
use credential::Credential;
pub(crate) use denial::{Denial, UNDECIDED};
pub(crate) use key_fetch::KeyFetch;
pub use key_fetch::KeyFetcher;
use shared_tickets::TicketAnnouncer;
pub use shared_tickets::TicketNews;

/// What a server remembers of identities. Lives as long as its workers; the handle has it too.
#[derive(Default)]
pub(crate) struct IdentityStore {
    pub(crate) tickets: Mutex<Tickets>,
    pub(crate) revocations: RwLock<Revocations>,
    bans: RwLock<Bans>,
    /// Whether there ever was a ban, so that servers without one take no lock at login.
    has_bans: AtomicBool,
    pub(crate) fingerprints: Fingerprints,
    pub(crate) key_fetch: KeyFetch,
    pub(crate) login_checker: OnceLock<Box<dyn LoginChecker>>,
    /// Tells other nodes of tickets, if there are any.
    pub(crate) announcer: OnceLock<Box<TicketAnnouncer>>,
}

/// What is known of the clients of an id, online or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether clients need a token, a ticket or a trusted proxy.
    pub needs_identity: bool,
    /// Until when the id is banned.
    pub banned_until: Option<UnixSeconds>,
    /// Tokens and tickets that were issued before this time are refused.
    pub revoked_before: Option<UnixSeconds>,
}

/// Session that a request may open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant<'a> {
    /// The ids that it reads; at least one.
    pub(crate) ids: Vec<Id>,
    /// The same as text.
    names: Vec<Cow<'a, str>>,
    /// Who the client is; `None` where no identity is needed.
    pub(crate) identity: Option<Identity>,
    /// The ticket to use, as text.
    pub(crate) ticket: Option<Cow<'a, str>>,
}

impl Grant<'static> {
    /// Returns the grant of these ids to an identity.
    ///
    /// # Errors
    ///
    /// [`Denial::Token`] when it may not read one of them.
    pub(crate) fn of_ids(ids: Vec<Id>, identity: Option<Identity>) -> Result<Self, Denial> {
        let names: Vec<_> = ids.iter().map(|id| Cow::Owned(id.to_string())).collect();
        if let Some(identity) = &identity {
            for name in &names {
                identity.authorize(name)?;
            }
        }
        Ok(Self {
            ids,
            names,
            identity,
            ticket: None,
        })
    }
}

/// Returns the session that a request for a stream may open. `segment` is what its path names, and
/// `is_trusted` tells whether its peer is a trusted proxy.
///
/// # Errors
///
/// See [`Denial`].
pub(crate) fn authorize<'a>(
    policy: &Policy,
    store: &IdentityStore,
    request: &Request<'a>,
    segment: &'a str,
    is_trusted: bool,
    now: UnixSeconds,
) -> Result<Grant<'a>, Denial> {
    let named = match target::names_ids(segment, request.query) {
        true => target::ids(segment, request.query)?,
        false if policy.requires_identity() => Vec::new(),
        false => return Err(Denial::Target(IdsError::Empty)),
    };
    let (identity, names, ticket) = if policy.requires_identity() {
        let proof = identify(policy, store, request, is_trusted, now)?;
        let names = match named.is_empty() {
            true => proof.own,
            false => named,
        };
        for name in &names {
            proof.identity.authorize(name)?;
        }
        (Some(proof.identity), names, proof.ticket)
    } else {
        (None, named, None)
    };
    if names.is_empty() {
        return Err(Denial::NoSubject);
    }
    let grant = Grant {
        ids: parse(&names)?,
        names,
        identity,
        ticket,
    };
    store.check(&grant, now)?;
    Ok(grant)
}

fn parse(names: &[Cow<'_, str>]) -> Result<Vec<Id>, Denial> {
    let ids = names.iter().map(|name| Id::parse(name));
    Ok(ids.collect::<Result<_, _>>()?)
}

/// What a credential has proved.
struct Proof<'a> {
    identity: Identity,
    /// The ids of a session whose request names none.
    own: Vec<Cow<'a, str>>,
    ticket: Option<Cow<'a, str>>,
}

/// Returns who sends a request.
fn identify<'a>(
    policy: &Policy,
    store: &IdentityStore,
    request: &Request<'a>,
    is_trusted: bool,
    now: UnixSeconds,
) -> Result<Proof<'a>, Denial> {
    let credential = credential::find(policy, request, is_trusted)?;
    let identity = match credential.ok_or(Denial::NoCredential)? {
        Credential::Ticket(text) => {
            let found = store.tickets.lock().look_up(&text, now)?;
            return Ok(Proof {
                identity: found.identity(),
                own: found
                    .ids
                    .iter()
                    .map(|id| Cow::Owned(id.to_string()))
                    .collect(),
                ticket: Some(text),
            });
        }
        Credential::Token(token) => {
            let identity = policy.verify(&token, now)?;
            // The session would end at once, and its client come back with the same token.
            let ends_at_once = |end| end <= now.plus(LEASE_HORIZON_SECONDS);
            if identity.expires.is_some_and(ends_at_once) {
                return Err(Denial::Token(TokenError::Expired));
            }
            identity
        }
        Credential::User(user) => Identity::of_user(user, now),
    };
    let own = identity.subject.iter().map(|id| Cow::Owned(id.to_string()));
    Ok(Proof {
        own: own.collect(),
        identity,
        ticket: None,
    })
}

impl IdentityStore {
    /// Leaves no room for tickets, revocations and bans.
    #[cfg(feature = "sim")]
    pub(crate) fn fill(&self) {
        *self.tickets.lock() = Tickets::with_max(0);
        *self.revocations.write() = Revocations::with_max(0);
        *self.bans.write() = Bans::with_max(0);
    }

    /// Checks that neither the identity is revoked nor the client kept away: neither as who it is,
    /// nor as what it reads.
    ///
    /// A login checks this again when the session is in the directory. The operator's side first
    /// writes down what is refused, and then looks for sessions: so one of the two finds the other.
    ///
    /// # Errors
    ///
    /// [`Denial::Token`] or [`Denial::Banned`].
    pub(crate) fn check(&self, grant: &Grant<'_>, now: UnixSeconds) -> Result<(), Denial> {
        let names = grant.names.iter().map(AsRef::as_ref);
        self.check_client(grant.identity.as_ref(), names, now)
    }

    /// Checks that neither an identity is revoked nor its client kept away: neither as who it is,
    /// nor as one that reads `names`.
    ///
    /// # Errors
    ///
    /// [`Denial::Token`] or [`Denial::Banned`].
    pub(crate) fn check_client<'a>(
        &self,
        identity: Option<&'a Identity>,
        names: impl Iterator<Item = &'a str> + Clone,
        now: UnixSeconds,
    ) -> Result<(), Denial> {
        if let Some(identity) = identity {
            self.revocations
                .read()
                .check(identity, names.clone(), now)?;
        }
        if !self.has_bans.load(Ordering::Acquire) {
            return Ok(());
        }
        let bans = self.bans.read();
        let subject = identity.and_then(|identity| identity.subject.as_deref());
        let mut ids = subject.into_iter().chain(names);
        match ids.any(|id| bans.until(id, now).is_some()) {
            true => Err(Denial::Banned),
            false => Ok(()),
        }
    }

    /// Returns whether one of these ids is banned.
    pub(crate) fn is_banned(&self, mut ids: impl Iterator<Item = Id>, now: UnixSeconds) -> bool {
        self.has_bans.load(Ordering::Acquire) && {
            let bans = self.bans.read();
            ids.any(|id| bans.until(&id.to_string(), now).is_some())
        }
    }

    /// Tells other nodes, if there are any.
    pub(crate) fn announce(&self, news: impl FnOnce() -> TicketNews) {
        if let Some(announcer) = self.announcer.get() {
            announcer(news());
        }
    }

    /// Returns until when an id is banned, if it is.
    pub(crate) fn banned_until(&self, id: &str, now: UnixSeconds) -> Option<UnixSeconds> {
        self.bans.read().until(id, now)
    }

    /// Bans an id for so many seconds.
    pub(crate) fn ban(
        &self,
        id: &str,
        seconds: u64,
        now: UnixSeconds,
    ) -> Result<(), auth::bans::BanError> {
        let banned = self.bans.write().ban(id, seconds, now);
        self.has_bans.store(true, Ordering::Release);
        banned
    }
}
