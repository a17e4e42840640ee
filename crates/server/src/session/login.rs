//! Login: what stands between a request for a stream and its session.

use std::sync::Arc;

use auth::tickets;
use auth::{TokenError, UnixSeconds};
use graph::{Id, Key};
use reactor::{Driver, SlotKey};
use router::SessionRef;
use wire::head::Request;
use wire::start::Start;
use wire::status::Status;
use wire::transport::Transport;

use super::reading::Reading;
use super::sessions::Sessions;
use crate::answer::{Answer, Responder};
use crate::identity::{self, Denial, Grant, TicketNews};
use crate::lease::Lease;
use crate::mail::Mail;
use crate::refusal::NO_MESSAGES;
use crate::replay::StartAt;
use crate::stage::Stage as _;
use crate::table::{CloseReason, ConnectionTable, Extras, Phase};

/// Reason why a connection is not logged in.
#[derive(Debug)]
pub(super) enum Refused {
    Denied(Denial),
    /// There are too many ids. The sentence is for the client.
    Full(&'static str),
}

impl Sessions {
    /// Returns the session that a request for a stream may open.
    pub(super) fn authorize<'a, D: Driver>(
        &self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'a>,
        segment: &'a str,
    ) -> Result<Grant<'a>, Denial> {
        let policy = &table.live.policy;
        let now = UnixSeconds(table.clock.unix_seconds);
        let is_trusted = !policy.settings().trusted_proxies.is_empty()
            && table
                .origin(key)
                .is_some_and(|origin| origin.is_trusted(policy));
        identity::authorize(
            policy,
            &self.shared.identity,
            request,
            segment,
            is_trusted,
            now,
        )
    }

    /// Lets a request wait for key sets, if they are fetched for it. Returns whether it waits.
    pub(super) fn await_keys<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
    ) -> bool {
        if !self.awaiting_keys.has_room(table.limits) {
            return false;
        }
        let waits = self.fetch_keys(UnixSeconds(table.clock.unix_seconds));
        if waits {
            self.awaiting_keys.add(key);
            table.enter(key, Phase::AwaitingKeys);
        }
        waits
    }

    /// Asks for key sets. Returns whether they are fetched.
    pub(super) fn fetch_keys(&self, now: UnixSeconds) -> bool {
        let shared = Arc::clone(&self.shared);
        let done = move || {
            shared.identity.key_fetch.end();
            for mailbox in &shared.router.mailboxes().mailboxes {
                mailbox.insert(Mail::KeysFetched);
            }
        };
        self.shared.identity.key_fetch.ask(now, done)
    }

    /// Refuses a request for which no key sets came in time, or no decision on its login.
    pub(crate) fn reject_key<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        responder: &mut Responder,
        key: SlotKey,
    ) {
        let denial = match self.login_checks.is_waiting(key) {
            true => Denial::Undecided,
            false => Denial::Token(TokenError::NoKey),
        };
        self.login_checks.forget(key);
        table.stats.denied(denial.metric());
        responder.answer_last(table, key, &denial.answer());
    }

    /// Uses the ticket of `grant`, if it has one. A session that had it before ends: its client has
    /// come back before the end of its connection was noticed.
    pub(super) fn redeem(
        &self,
        key: SlotKey,
        grant: &Grant<'_>,
        now: UnixSeconds,
    ) -> Result<Option<tickets::Hash>, Denial> {
        let Some(text) = &grant.ticket else {
            return Ok(None);
        };
        let name = self.name(key).to_bits();
        let redeemed = self
            .shared
            .identity
            .tickets
            .lock()
            .redeem(text, name, now)?;
        if let Some(before) = redeemed.superseded.map(SessionRef::from_bits) {
            let mailbox = self.shared.mailbox(before.worker());
            mailbox.insert(Mail::Close(vec![before.key()]));
        }
        let ticket = redeemed.hash;
        self.shared.identity.announce(|| TicketNews::Used {
            hash: ticket,
            ids: redeemed.ids,
            issued: redeemed.issued,
            session: name,
        });
        Ok(Some(ticket))
    }

    /// Lets the ticket of a session that has ended be used for a reconnect.
    pub(super) fn release(&self, key: SlotKey, ticket: Option<tickets::Hash>, now: UnixSeconds) {
        if let Some(ticket) = ticket {
            let name = self.name(key).to_bits();
            let identity = &self.shared.identity;
            let released = identity.tickets.lock().release(&ticket, name, now);
            if released {
                let (hash, session) = (ticket, name);
                identity.announce(|| TicketNews::Released { hash, session });
            }
        }
    }

    /// Returns where a request's stream begins, if there is a history. The error is the answer to
    /// a request that makes no sense.
    pub(super) fn start<'a>(
        &self,
        request: &Request<'a>,
        transport: Transport,
    ) -> Result<Option<StartAt<'a>>, Answer> {
        let Some(head) = self.shared.router.head() else {
            return Ok(None);
        };
        let start = Start::of(request)
            .map_err(|error| Answer::error(Status::BAD_REQUEST, error.reason()))?;
        if start == Start::InMessage && transport != Transport::WebSocket {
            return Err(Answer::error(Status::BAD_REQUEST, NO_MESSAGES));
        }
        Ok(Some(StartAt { start, head }))
    }

    /// Logs a connection in as its client may be, with the lease of its identity. If it was logged
    /// in for a poll before, that login ends, and an id of both does not go offline between.
    pub(super) fn log_in_granted<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        grant: &Grant<'_>,
        reading: Reading,
    ) -> Result<Vec<Key>, Refused> {
        let now = UnixSeconds(table.clock.unix_seconds);
        let ticket = self.redeem(key, grant, now).map_err(Refused::Denied)?;
        let polled = self.take_poll_login(table, key);
        let logged_in = self.log_in(key, &grant.ids).map_err(Refused::Full);
        let logged_in = logged_in.and_then(|keys| {
            self.shared.identity.check(grant, now).map_err(|denial| {
                self.log_out_of(key, &keys);
                Refused::Denied(denial)
            })?;
            Ok(keys)
        });
        let goes_on = reading == Reading::Poll && polled.as_deref() == logged_in.as_deref().ok();
        if let Some(polled) = polled {
            if !goes_on {
                self.observe_logout(table, key, &polled, Reading::Poll, CloseReason::Done);
            }
            self.log_out_except(key, &polled, logged_in.as_deref().unwrap_or_default());
        }
        if logged_in.is_ok() && !goes_on {
            self.observe_login(table, key, &grant.ids, reading);
        }
        if logged_in.is_err() {
            self.release(key, ticket, now);
        } else if let Some(identity) = &grant.identity
            && let Some(connection) = table.get_mut(key)
        {
            connection.extras.insert(Extras::LEASE);
            let lease = Lease::of(identity, &self.shared.identity.fingerprints);
            self.leases.insert(key.index, lease, ticket);
        }
        logged_in
    }

    /// Ends the lease of a connection, and lets its ticket be used for a reconnect.
    pub(super) fn end_lease<D: Driver>(&mut self, table: &mut ConnectionTable<D>, key: SlotKey) {
        if table.clear(key, Extras::LEASE) {
            let ticket = self.leases.log_out(key.index);
            self.release(key, ticket, UnixSeconds(table.clock.unix_seconds));
        }
    }

    /// Removes a session from the directory under `keys`, but not under those of `but`, to which it
    /// has been added again.
    fn log_out_except(&self, key: SlotKey, keys: &[Key], but: &[Key]) {
        let router = &self.shared.router;
        let name = self.name(key);
        for &id in keys {
            match but.contains(&id) {
                true => router.graph().release(id),
                false => {
                    router.logout(id, name);
                }
            }
        }
    }

    /// Adds a session to the directory under all of `ids`, or under none. The error is a sentence
    /// for the client.
    pub(super) fn log_in(&self, key: SlotKey, ids: &[Id]) -> Result<Vec<Key>, &'static str> {
        let name = self.name(key);
        let mut keys = Vec::with_capacity(ids.len());
        for id in ids {
            match self.shared.router.login(id, name) {
                Ok(id) => keys.push(id),
                Err(error) => {
                    self.log_out_of(key, &keys);
                    tracing::error!(%error, "a session could not be opened");
                    return Err("the server has too many ids; try again later");
                }
            }
        }
        Ok(keys)
    }

    /// Removes a session from the directory under `keys`. Returns the number of events that were
    /// counted as queued for it while it was deferred.
    pub(super) fn log_out_of(&self, key: SlotKey, keys: &[Key]) -> u64 {
        let name = self.name(key);
        let events = keys.iter().map(|&id| self.shared.router.logout(id, name));
        events.sum()
    }
}
