//! What all workers of a server share. Nothing in it is written on the path of an event.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use reactor::SourceCounts;
use router::Router;

use crate::demo::DemoPage;
use crate::mail::Post;
use crate::settings::Settings;

/// The shared state of a server. Lives as long as its workers.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) router: Arc<Router<Post>>,
    pub(crate) demo: Arc<OnceLock<DemoPage>>,
    /// Connections admitted, over all workers.
    pub(crate) connections: AtomicUsize,
    /// Those by source, if sources are limited.
    pub(crate) sources: SourceCounts,
    pub(crate) draining: Arc<AtomicBool>,
}

impl Shared {
    /// Whether the server has begun to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
