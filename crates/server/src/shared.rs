//! State shared by all workers of a server. The path of an event writes nothing in it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use reactor::{RateLimitedWarnings, SourceCounts};
use router::Router;

use crate::demo::DemoPage;
use crate::identity::IdentityStore;
use crate::mail::Post;
use crate::settings::Settings;

/// Shared state of a server. Lives as long as its workers.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) router: Arc<Router<Post>>,
    pub(crate) demo: Arc<OnceLock<DemoPage>>,
    /// Connections admitted, over all workers.
    pub(crate) connections: AtomicUsize,
    /// Connections by source, if sources are limited.
    pub(crate) sources: SourceCounts,
    pub(crate) draining: Arc<AtomicBool>,
    pub(crate) tls_warnings: RateLimitedWarnings,
    pub(crate) identity: Arc<IdentityStore>,
}

impl Shared {
    /// Returns whether the server is draining.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
