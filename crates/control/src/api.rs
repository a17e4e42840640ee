//! State that all handlers share.
//!
//! Owned by [`crate::Control`] and by the requests in flight. Lives until the last of them ends.

use std::sync::Arc;
use std::time::Instant;

use ::presence::{Feed, Online};
use router::Router;
use server::{Handle, Post};
use tokio::sync::Semaphore;
use webhook::Webhook;

use crate::idempotency::Keys;
use crate::jwks::JwksMetrics;
use crate::limits::Limits;
use crate::live_tokens::LiveTokens;
use crate::metrics::listener::ListenerMetrics;
use crate::metrics::published::Published;
use crate::problem::Problem;
use crate::replicated::Replicated;
use crate::run::Run;
use crate::shared::own::OwnState;
use crate::shared::piece::IdentityPiece;
use crate::time::now;

/// The state of the control API.
pub(crate) struct Api {
    /// The server behind the API.
    pub(crate) server: Handle,
    /// The tokens of which a request needs one, if there are any.
    pub(crate) tokens: LiveTokens,
    pub(crate) event_bytes_max: usize,
    /// Bounds of requests.
    pub(crate) limits: Limits,
    pub(crate) started: Instant,
    pub(crate) published: Arc<Published>,
    pub(crate) listening: Arc<ListenerMetrics>,
    pub(crate) key_sets: JwksMetrics,
    /// Idempotency keys, and the answers to their requests.
    pub(crate) keys: Arc<Keys>,
    /// Revocations and bans of a server that is not in a cluster.
    pub(crate) own: OwnState,
    /// The log of the cluster, if there is one.
    pub(crate) replicated: Option<Replicated>,
    /// The webhook, if there is one.
    pub(crate) webhook: Option<Arc<Webhook>>,
    /// Presence, if the server has it.
    pub(crate) presence: Option<Presence>,
    /// Bound on the readers of presence.
    pub(crate) feeds: Arc<Semaphore>,
}

/// Presence of a server, as the control API sees it.
#[derive(Debug, Clone)]
pub(crate) struct Presence {
    /// Who is online.
    pub(crate) online: Arc<Online>,
    /// The latest edges.
    pub(crate) feed: Arc<Feed>,
}

/// The state in the form that handlers take.
pub(crate) type Shared = Arc<Api>;

impl Api {
    pub(crate) fn new(
        server: Handle,
        tokens: LiveTokens,
        event_bytes_max: usize,
        limits: Limits,
    ) -> Self {
        let presence = server.presence().map(|presence| Presence {
            online: Arc::clone(presence.online()),
            feed: Arc::clone(presence.feed()),
        });
        Self {
            server,
            tokens,
            event_bytes_max,
            limits,
            started: Instant::now(),
            published: Arc::default(),
            listening: Arc::default(),
            key_sets: JwksMetrics::default(),
            keys: Arc::new(Keys::new(limits.idempotency_keys_max)),
            own: OwnState::new(&limits),
            replicated: None,
            webhook: None,
            presence,
            feeds: Arc::new(Semaphore::new(limits.feeds_max)),
        }
    }

    /// Returns what the server says of its run.
    pub(crate) fn run(&self) -> Run {
        let draining = self.server.is_draining();
        Run::new("serve", self.router().epoch(), self.started, draining)
    }

    pub(crate) fn router(&self) -> &Router<Post> {
        self.server.router()
    }

    /// Lets this server, or all nodes of its cluster, remember what a piece says of an identity.
    /// Returns when it has taken effect and is stored.
    pub(crate) async fn share(&self, piece: IdentityPiece) -> Result<(), Problem> {
        match &self.replicated {
            None => self.own.share(&self.server, &piece, now()).await,
            Some(replicated) => replicated.share(piece).await,
        }
    }
}
