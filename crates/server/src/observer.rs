//! Observer of sessions: told of each that begins and of each that ends.
//!
//! Sessions are observed for programs outside: webhooks, logs. Must never decide anything about a
//! session.

use std::fmt;
use std::sync::Arc;

use graph::Id;
use router::SessionRef;

/// Receiver of the beginnings and ends of sessions.
///
/// It is called on the threads of the workers, while a client waits: it notes what it is told, in
/// bounded memory, and returns at once. Of one session it is told in order.
pub trait SessionObserver: Send + Sync {
    /// A client has logged in.
    fn session_began(&self, session: &ObservedSession<'_>);

    /// A session has ended and is about to be logged out. `reason` is one of the reasons in the
    /// metric of closed connections.
    fn session_ended(&self, session: &ObservedSession<'_>, reason: &'static str);
}

/// What there is to say of a session that begins or ends.
#[derive(Debug, Clone, Copy)]
pub struct ObservedSession<'a> {
    /// Name of the session, which no other one of this run has.
    pub session: SessionRef,
    /// The ids that it is logged in as; at least one. A WebSocket client may have changed them.
    pub ids: &'a [Id],
    /// Name of the transport, as in reports on sessions.
    pub transport: &'static str,
    /// Time, in seconds since 1970.
    pub time: u64,
}

/// The observer of a server's sessions.
#[derive(Clone)]
pub struct Observer(Arc<dyn SessionObserver>);

impl Observer {
    /// Makes `observer` the one of a server.
    pub fn new(observer: Arc<dyn SessionObserver>) -> Self {
        Self(observer)
    }

    /// Returns whom to tell.
    pub fn get(&self) -> &dyn SessionObserver {
        &*self.0
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer(…)")
    }
}
