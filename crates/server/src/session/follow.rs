//! Changes to an open session: the ids that it follows, the identity behind it, and where its
//! stream begins.
//!
//! What a client may follow is decided by the identity and the rules of now, as for a new session.

use std::sync::Arc;

use auth::{Identity, TokenError, UnixSeconds};
use graph::{Id, Key};
use reactor::{Driver, SlotKey};
use wire::start::Start;
use wire::target::IDS_MAX;
use wire::transport::Transport;

use super::sessions::Sessions;
use crate::identity::{Denial, Grant};
use crate::lease::Lease;
use crate::replay::{StartAt, undefer};
use crate::table::{ConnectionTable, Extras, Phase};

/// Reason why a client does not get what it asks for within its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandError {
    /// The session goes on as before. With a sentence for the client.
    Refused(String),
    /// A token of another subject: the session must end.
    OtherSubject,
}

impl From<Denial> for CommandError {
    fn from(denial: Denial) -> Self {
        let answer = denial.answer_on(Transport::WebSocket);
        Self::Refused(String::from_utf8_lossy(&answer.body).trim_end().to_owned())
    }
}

impl Sessions {
    /// Adds ids to those that a session follows.
    ///
    /// # Errors
    ///
    /// When the identity behind the session may not read one of them, or when they are too many.
    /// Then none is added.
    pub(crate) fn subscribe<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        ids: &[Id],
    ) -> Result<(), CommandError> {
        let Some(mut keys) = self.followed(table, key) else {
            return Ok(());
        };
        let Some(grant) = self.subscription(table, key, ids)? else {
            return Ok(());
        };
        let router = Arc::clone(&self.shared.router);
        undefer(table, self, &router, key);
        let now = UnixSeconds(table.clock.unix_seconds);
        let added = self
            .log_in(key, &grant.ids)
            .map_err(|reason| CommandError::Refused(reason.to_owned()))?;
        // As at login: who revokes or bans meanwhile finds the session, or is found here.
        if let Err(denial) = self.shared.identity.check(&grant, now) {
            self.log_out_of(key, &added);
            table.stats.denied(denial.metric());
            return Err(denial.into());
        }
        keys.extend(added);
        self.follow(table, key, &keys);
        Ok(())
    }

    /// Returns the grant of those of `ids` that a session does not follow; `None` if it follows all
    /// of them, or has ended.
    pub(super) fn subscription<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        ids: &[Id],
    ) -> Result<Option<Grant<'static>>, CommandError> {
        let Some(keys) = self.followed(table, key) else {
            return Ok(None);
        };
        let graph = self.shared.router.graph();
        let is_followed = |id: &Id| graph.find(id).is_some_and(|known| keys.contains(&known));
        let added: Vec<Id> = ids.iter().filter(|id| !is_followed(id)).cloned().collect();
        if added.is_empty() {
            return Ok(None);
        }
        if keys.len() + added.len() > IDS_MAX {
            return Err(CommandError::Refused(format!(
                "a session follows at most {IDS_MAX} ids, and this one would follow {}",
                keys.len() + added.len()
            )));
        }
        let identity = self.websockets.identity(key.index).cloned();
        let grant = self
            .grant(table, added, identity)
            .inspect_err(|denial| table.stats.denied(denial.metric()))?;
        Ok(Some(grant))
    }

    /// Removes ids from those that a session follows. Ids that it does not follow are passed over.
    ///
    /// # Errors
    ///
    /// When none would be left.
    pub(crate) fn unsubscribe<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        ids: &[Id],
    ) -> Result<(), CommandError> {
        let Some(keys) = self.followed(table, key) else {
            return Ok(());
        };
        let graph = self.shared.router.graph();
        let named: Vec<Key> = ids.iter().filter_map(|id| graph.find(id)).collect();
        let (removed, left): (Vec<Key>, Vec<Key>) =
            keys.into_iter().partition(|key| named.contains(key));
        if left.is_empty() {
            return Err(CommandError::Refused(
                "a session follows at least one id; close it to end it".to_owned(),
            ));
        }
        self.follow(table, key, &left);
        self.log_out_of(key, &removed);
        Ok(())
    }

    /// Replaces the identity behind a session by that of a newer token. Returns when it expires, in
    /// seconds since 1970.
    ///
    /// # Errors
    ///
    /// When the token is not accepted, does not allow what the session follows, or is of another
    /// subject.
    pub(crate) fn renew<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        token: &str,
    ) -> Result<Option<u64>, CommandError> {
        let policy = &table.live.policy;
        let now = UnixSeconds(table.clock.unix_seconds);
        let Some(known) = self.websockets.identity(key.index) else {
            let reason = "the session was opened without a token; open another with it";
            return Err(CommandError::Refused(reason.to_owned()));
        };
        if !policy.accepts_tokens() {
            let reason = "this server accepts no tokens";
            return Err(CommandError::Refused(reason.to_owned()));
        }
        let identity = policy.verify(token, now).map_err(|error| {
            if matches!(error, TokenError::UnknownKey(_)) {
                // The next attempt may find the key.
                self.fetch_keys(now);
            }
            let denial = Denial::Token(error);
            table.stats.denied(denial.metric());
            CommandError::from(denial)
        })?;
        if identity.subject != known.subject {
            return Err(CommandError::OtherSubject);
        }
        let keys = self.followed(table, key).unwrap_or_default();
        let graph = self.shared.router.graph();
        let ids = keys.into_iter().filter_map(|key| graph.name(key)).collect();
        self.grant(table, ids, Some(identity.clone()))
            .inspect_err(|denial| table.stats.denied(denial.metric()))?;
        self.leases.remove(key.index);
        let lease = Lease::of(&identity, &self.shared.identity.fingerprints);
        self.leases.insert(key.index, lease, None);
        if let Some(connection) = table.get_mut(key) {
            connection.extras.insert(Extras::LEASE);
        }
        let expires = identity.expires.map(|time| time.0);
        self.websockets.identify(key.index, identity);
        Ok(expires)
    }

    /// Begins the stream of a session whose client was to send its cursor.
    ///
    /// # Errors
    ///
    /// When no cursor is awaited.
    pub(crate) fn start_after<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        cursor: &str,
    ) -> Result<(), CommandError> {
        let router = &self.shared.router;
        let Some(session) = table.session(key) else {
            return Ok(());
        };
        let Some(head) = self.replays.awaited(key) else {
            let reason = match router.head() {
                None => "the server keeps no history, so a stream begins where it is opened",
                Some(_) => {
                    "a cursor is taken once, of a session that was opened with ?cursor=message"
                }
            };
            return Err(CommandError::Refused(reason.to_owned()));
        };
        let start = Start::at(cursor);
        let keys = self.keys(key.index, &session);
        let resume = StartAt { start, head }.resume(router, keys, table.limits);
        let mut out = table.scratch();
        resume.push_reset(session, router.epoch(), &mut out);
        table.send(key, &out);
        table.put_back(out);
        resume.begin_awaited(&table.stats, &mut self.replays, key);
        Ok(())
    }

    /// Returns whether a session follows an id that is banned: its client cannot come back at once.
    pub(crate) fn is_kept_away<D: Driver>(&self, table: &ConnectionTable<D>, key: SlotKey) -> bool {
        let ids = self.followed(table, key).unwrap_or_default();
        let graph = self.shared.router.graph();
        let ids = ids.into_iter().filter_map(|key| graph.name(key));
        let now = UnixSeconds(table.clock.unix_seconds);
        self.shared.identity.is_banned(ids, now)
    }

    /// Checks what a new session with these ids would be checked for.
    fn grant<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        ids: Vec<Id>,
        identity: Option<Identity>,
    ) -> Result<Grant<'static>, Denial> {
        if identity.is_none() && table.live.policy.requires_identity() {
            return Err(Denial::NoCredential);
        }
        let grant = Grant::of_ids(ids, identity)?;
        let now = UnixSeconds(table.clock.unix_seconds);
        self.shared.identity.check(&grant, now)?;
        Ok(grant)
    }

    /// Returns the keys of a session; `None` if it has ended.
    fn followed<D: Driver>(&self, table: &ConnectionTable<D>, key: SlotKey) -> Option<Vec<Key>> {
        let session = table.session(key)?;
        Some(self.keys(key.index, &session).to_vec())
    }

    /// Replaces the keys of a session; at least one.
    fn follow<D: Driver>(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, keys: &[Key]) {
        let Some(connection) = table.get_mut(key) else {
            return;
        };
        if let Phase::Open(session) = &mut connection.phase {
            session.key = keys[0];
            session.marks = session.marks.with_several(keys.len() > 1);
            if session.marks.hears_presence() {
                self.to_snapshot.push(key);
            }
        }
        self.several.set(key.index, keys);
    }
}
