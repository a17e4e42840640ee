//! Mail to workers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use auth::UnixSeconds;
use graph::Id;
use reactor::SlotKey;
use router::{Parcel, SessionRef};

use crate::client_publish::PublishError;
use crate::lease::Revoked;
use crate::login_check::LoginVerdict;
use crate::presence::{ChangedSessions, EdgeParcel};
use crate::settings::LiveSettings;

/// What a worker does with what it was asked for.
pub(crate) type Report = Box<dyn FnOnce(Vec<SessionReport>) + Send>;

/// Message to a worker, handled in its next turn.
pub(crate) enum Mail {
    Deliver(Parcel),
    /// Tell those sessions that asked who came and went.
    Presence(EdgeParcel),
    /// Send each session that asked a new snapshot.
    PresenceSnapshots,
    /// The same of these sessions: the subscriptions of their ids have changed.
    PresenceChanged(ChangedSessions),
    Inspect {
        sessions: Vec<SlotKey>,
        report: Report,
    },
    Slowest {
        limit: usize,
        report: Report,
    },
    Close(Vec<SlotKey>),
    /// End the sessions of a revoked identity.
    Revoke(Revoked),
    /// End those of the sessions whose identity was issued before a time.
    RevokeOlder(Vec<SlotKey>, UnixSeconds),
    /// What became of an event that a client has published.
    Published(Published),
    /// The key sets were fetched: requests that waited for it go on.
    KeysFetched,
    /// A login was decided on.
    LoginChecked {
        key: SlotKey,
        number: u64,
        verdict: LoginVerdict,
    },
    /// Use these settings from now on.
    Reload(Reload),
    /// Stop accepting, send farewells, flush backlogs, and end.
    Drain {
        /// Whether the worker ends. Otherwise all clients are only told to reconnect.
        ends: bool,
    },
}

/// New settings for a worker.
pub(crate) struct Reload {
    pub(crate) live: Arc<LiveSettings>,
    /// Nothing is sent here: it is dropped when the worker uses the settings.
    pub(crate) pending: SyncSender<Infallible>,
}

/// State of a session, from its worker and the kernel at the time of the request.
#[derive(Debug, Clone)]
pub struct SessionReport {
    /// The session's name.
    pub session: SessionRef,
    /// The ids it is logged in as.
    pub ids: Vec<Id>,
    /// `sse`, `ndjson` or `test`.
    pub transport: &'static str,
    /// Time since login.
    pub age: Duration,
    /// The address of the client; behind a proxy without a PROXY header, that of the proxy. `None`
    /// if the connection is closed already.
    pub peer: Option<SocketAddr>,
    /// Frames in its backlog.
    pub backlog_frames: usize,
    /// Bytes in its backlog.
    pub backlog_bytes: usize,
    /// Bytes handed to the kernel since the connection began and acknowledged by the peer's kernel.
    pub bytes_acknowledged: Option<u64>,
    /// Bytes handed to the kernel and not acknowledged.
    pub bytes_unacknowledged: Option<u64>,
    /// Whether it reads on from the history and is not live.
    pub is_behind: bool,
    /// The last notice that told it of lost events, if the worker still remembers it.
    pub last_gap: Option<GapReport>,
}

/// A notice that told a session how many of its events were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapReport {
    /// Events that were lost.
    pub lost: u64,
    /// Time since the notice.
    pub ago: Duration,
}

/// What became of an event that a client has published.
pub(crate) struct Published {
    /// Its session.
    pub(crate) key: SlotKey,
    /// What the client calls its message.
    pub(crate) reference: Option<Box<str>>,
    /// Position of the event, if it has one.
    pub(crate) result: Result<u64, PublishError>,
}
