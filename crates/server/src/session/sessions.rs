//! Sessions of a worker, and what is kept of them beside their records.

use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use graph::{Graph, Key};
use reactor::{SlotKey, Tick};
use router::{SessionRef, WorkerId};

use super::poll::Polls;
use super::several::Several;
use super::websocket::WebSockets;
use crate::identity::AwaitingKeys;
use crate::lease::Leases;
use crate::login_check::LoginChecks;
use crate::open_session::Session;
use crate::presence::Presence;
use crate::replay::Replays;
use crate::shared::Shared;
use crate::table::SparseSlots;

/// Sessions of a worker: what login needs beyond the connection table.
pub(crate) struct Sessions {
    pub(super) worker: WorkerId,
    pub(super) shared: Arc<Shared>,
    /// All ids of a session that has several, by slot.
    pub(super) several: Several,
    /// Sessions that need a snapshot of who is online, since the last turn.
    pub(super) to_snapshot: Vec<SlotKey>,
    pub(crate) awaiting_keys: AwaitingKeys,
    pub(crate) login_checks: LoginChecks,
    pub(crate) leases: Leases,
    pub(crate) websockets: WebSockets,
    pub(crate) polls: Polls,
    /// Sessions that are fed from the history, by slot.
    pub(crate) replays: Replays,
    /// What the access log says of sessions that are open, if there is one.
    pub(super) accessed: SparseSlots<Accessed>,
}

/// What is kept of a session until its line is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accessed {
    pub(super) client: Option<IpAddr>,
    pub(super) since: Tick,
}

impl Sessions {
    pub(crate) fn new(worker: WorkerId, shared: Arc<Shared>) -> Self {
        let limits = shared.limits;
        Self {
            worker,
            shared,
            several: Several::new(limits),
            to_snapshot: Vec::new(),
            awaiting_keys: AwaitingKeys::default(),
            login_checks: LoginChecks::default(),
            leases: Leases::new(limits),
            websockets: WebSockets::default(),
            polls: Polls::default(),
            replays: Replays::new(limits),
            accessed: SparseSlots::new(limits),
        }
    }

    /// Returns the name of the session in a slot.
    pub(crate) const fn name(&self, key: SlotKey) -> SessionRef {
        SessionRef::new(self.worker, key)
    }

    /// Returns the keys of the session in a slot.
    pub(crate) fn keys<'a>(&'a self, index: u32, session: &'a Session) -> &'a [Key] {
        match self.several.get(index) {
            Some(keys) if session.marks.has_several() => keys,
            _ => std::slice::from_ref(&session.key),
        }
    }

    /// Returns who is online, if it is kept.
    pub(crate) fn presence(&self) -> Option<&Presence> {
        self.shared.presence.as_deref()
    }

    /// Returns the graph of subscriptions.
    pub(crate) fn graph(&self) -> &Graph {
        self.shared.router.graph()
    }

    /// Takes the sessions that need a snapshot of who is online, unless that is not known yet: then
    /// all sessions get one when it is.
    pub(crate) fn take_to_snapshot(&mut self) -> Vec<SlotKey> {
        let mut keys = mem::take(&mut self.to_snapshot);
        if self
            .presence()
            .is_none_or(|presence| !presence.is_settled())
        {
            keys.clear();
        }
        keys
    }

    /// Returns whether the ids of no session are kept.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn keeps_no_ids(&self) -> bool {
        self.several.is_empty()
    }
}
