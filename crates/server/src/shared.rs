//! State shared by all workers of a server. The path of an event writes nothing in it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use reactor::{RateLimitedWarnings, SourceCounts};
use router::Router;

use crate::budget::Budget;
use crate::client_publish::ClientPublishing;
use crate::demo::DemoPage;
use crate::identity::IdentityStore;
use crate::post::Post;
use crate::presence::Presence;
use crate::settings::Settings;

/// Shared state of a server. Lives as long as its workers.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) router: Arc<Router<Post>>,
    pub(crate) demo: Arc<OnceLock<DemoPage>>,
    /// Set if clients may publish.
    pub(crate) client_publishing: Arc<OnceLock<ClientPublishing>>,
    /// Set if it is kept who is online.
    pub(crate) presence: Option<Arc<Presence>>,
    /// Connections admitted, over all workers.
    pub(crate) connections: AtomicUsize,
    /// Connections by source, if sources are limited.
    pub(crate) sources: SourceCounts,
    pub(crate) draining: Arc<AtomicBool>,
    /// Whether streams are sent to another server for now; see [`Handle::pause`](crate::Handle).
    pub(crate) paused: Arc<AtomicBool>,
    /// Whether another server is the better place for new clients; see
    /// [`Handle::set_ready`](crate::Handle::set_ready).
    pub(crate) unready: Arc<AtomicBool>,
    /// Warnings about connections that fail before their first request.
    pub(crate) connection_warnings: RateLimitedWarnings,
    pub(crate) identity: Arc<IdentityStore>,
    /// Bytes in buffers, over all workers.
    pub(crate) budget: Budget,
}

impl Shared {
    /// Returns whether the server is draining.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns whether new clients should come here.
    pub(crate) fn is_ready(&self) -> bool {
        !self.takes_no_streams() && !self.unready.load(Ordering::Relaxed)
    }

    /// Returns whether the server takes no streams: it is draining, or paused.
    pub(crate) fn takes_no_streams(&self) -> bool {
        self.is_draining() || self.paused.load(Ordering::Relaxed)
    }
}
