//! Login: what stands between a request for a stream and its session.

use std::sync::Arc;

use auth::tickets::TicketKey;
use auth::{TokenError, UnixSeconds};
use graph::{Id, Key};
use reactor::{Driver, SlotKey};
use router::SessionRef;
use wire::head::Request;

use super::Sessions;
use crate::answer::Responder;
use crate::identity::{self, Denial, Grant};
use crate::mail::Mail;
use crate::table::{ConnectionTable, Phase};

impl Sessions {
    /// Returns the session that a request for a stream may open.
    pub(super) fn authorize<'a, D: Driver>(
        &self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'a>,
        segment: &'a str,
    ) -> Result<Grant<'a>, Denial> {
        let policy = &self.live.policy;
        let now = UnixSeconds(table.clock.unix_seconds);
        let is_trusted = !policy.settings().trusted_proxies.is_empty()
            && table
                .peer_address(key)
                .is_some_and(|peer| policy.trusts(peer.ip()));
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
        if !self.awaiting_keys.has_room() {
            return false;
        }
        let now = UnixSeconds(table.clock.unix_seconds);
        let shared = Arc::clone(&self.shared);
        let done = move || {
            shared.identity.key_fetch.end();
            for mailbox in &shared.router.mailboxes().0 {
                mailbox.insert(Mail::KeysFetched);
            }
        };
        let waits = self.shared.identity.key_fetch.ask(now, done);
        if waits {
            self.awaiting_keys.add(key);
            table.enter(key, Phase::AwaitingKeys);
        }
        waits
    }

    /// Refuses a request for which no key sets came in time.
    pub(crate) fn reject_key<D: Driver>(
        &self,
        table: &mut ConnectionTable<D>,
        responder: &mut Responder,
        key: SlotKey,
    ) {
        let denial = Denial::Token(TokenError::NoKey);
        table.stats.denied(&denial);
        responder.answer_last(table, key, &denial.answer());
    }

    /// Uses the ticket of `grant`, if it has one. A session that had it before ends: its client has
    /// come back before the end of its connection was noticed.
    pub(super) fn redeem(
        &self,
        key: SlotKey,
        grant: &Grant<'_>,
        now: UnixSeconds,
    ) -> Result<Option<TicketKey>, Denial> {
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
            let mailboxes = &self.shared.router.mailboxes().0;
            mailboxes[usize::from(before.worker().0)].insert(Mail::Close(vec![before.key()]));
        }
        Ok(Some(redeemed.ticket))
    }

    /// Lets the ticket of a session that has ended be used for a reconnect.
    pub(super) fn release(&self, key: SlotKey, ticket: Option<TicketKey>, now: UnixSeconds) {
        if let Some(ticket) = ticket {
            let name = self.name(key).to_bits();
            self.shared
                .identity
                .tickets
                .lock()
                .release(ticket, name, now);
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

    /// Removes a session from the directory under `keys`.
    pub(super) fn log_out_of(&self, key: SlotKey, keys: &[Key]) {
        let name = self.name(key);
        for &id in keys {
            self.shared.router.logout(id, name);
        }
    }
}
