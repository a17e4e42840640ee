//! The control API over simulated connections, for simulations of other crates.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use server::Handle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::{ConnectionService, Ended, serve_in_place};
use crate::api::Api;
use crate::error::StartError;
use crate::limits::Limits;
use crate::live_tokens::LiveTokens;
use crate::metrics::listener::ListenerMetrics;
use crate::places::Places;
use crate::routes;
use crate::shared::own::OwnState;
use crate::time::now;
use crate::tokens::Tokens;

/// The control API of a simulated server, without a socket, threads and tokens. Owned by the test.
pub struct SimControl {
    service: ConnectionService,
    places: Arc<Places>,
    counts: Arc<ListenerMetrics>,
    api: Arc<Api>,
}

impl fmt::Debug for SimControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimControl").finish_non_exhaustive()
    }
}

impl SimControl {
    /// Makes the control API of a server.
    ///
    /// # Errors
    ///
    /// When what is stored with the graph cannot be read.
    pub fn new(
        server: Handle,
        event_bytes_max: usize,
        head_timeout: Duration,
    ) -> Result<Self, StartError> {
        let own = OwnState::load(&server, now(), &Limits::USUAL).map_err(StartError::Stored)?;
        let tokens = LiveTokens::new(Tokens::default(), true);
        let api = Arc::new(Api {
            own,
            ..Api::new(server, tokens, event_bytes_max, Limits::USUAL)
        });
        let counts = Arc::clone(&api.listening);
        Ok(Self {
            service: ConnectionService {
                http: routes::router(Arc::clone(&api)),
                head_timeout,
            },
            places: Places::new(Arc::clone(&counts), head_timeout, Limits::USUAL),
            counts,
            api,
        })
    }

    /// Returns what serves a connection, on a runtime of the test.
    pub fn connection<S>(&self, stream: S) -> impl Future<Output = ()> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let place = self.places.enter();
        let connection = self
            .service
            .connection(stream, Instant::now(), Arc::clone(&place));
        let ended = async { Ended::of(connection.await) };
        serve_in_place(place, Arc::clone(&self.counts), ended)
    }

    /// Returns the numbers of connections that are open and of events that wait for their receipts.
    pub fn under_way(&self) -> (u64, u64) {
        (
            self.counts.visits().connections,
            self.api.published.requests_pending(),
        )
    }
}
