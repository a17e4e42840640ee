//! What every handler shares.
//!
//! Owned by [`crate::Control`] and by the requests under way; gone with the last of them.

use std::sync::Arc;
use std::time::Instant;

use router::Router;
use tokio::sync::Semaphore;

use crate::backend::Backend;
use crate::limits::RELAYED_MAX;
use crate::metrics::{Listening, Published};

/// The state of the control API.
pub(crate) struct Api<B> {
    pub(crate) backend: B,
    /// The bearer token that requests must carry, if any.
    pub(crate) token: Option<String>,
    pub(crate) event_bytes_max: usize,
    pub(crate) started: Instant,
    pub(crate) published: Arc<Published>,
    pub(crate) listening: Arc<Listening>,
    /// Room for relayed requests.
    pub(crate) relayed: Arc<Semaphore>,
}

/// The state as handlers take it.
pub(crate) type Shared<B> = Arc<Api<B>>;

impl<B: Backend> Api<B> {
    pub(crate) fn new(backend: B, token: Option<String>, event_bytes_max: usize) -> Self {
        Self {
            backend,
            token,
            event_bytes_max,
            started: Instant::now(),
            published: Arc::default(),
            listening: Arc::default(),
            relayed: Arc::new(Semaphore::new(RELAYED_MAX)),
        }
    }

    pub(crate) fn router(&self) -> &Router<B::Mailboxes> {
        self.backend.router()
    }
}
