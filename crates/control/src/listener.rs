//! The accept loop of the control listener: who is let in, how long a connection may be silent, and
//! how all of them end.
//!
//! What is silent or slow before its request is understood costs a bounded number of places for a
//! bounded time; no token has been looked at by then. Must never look into a request.

/// How long a connection may take to send a head.
mod patience;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

use crate::limits::{
    ACCEPT_PAUSE, CONNECTIONS_MAX, HEAD_BYTES_MAX, IDLE_WAIT, KEEPALIVE_INTERVAL, KEEPALIVE_TIME,
    PAUSE_WARNING_INTERVAL, REFUSED_MAX, REFUSED_WAIT,
};
use crate::metrics::Listening;
use patience::Patience;

/// The control listener. Lives in a task of its own until the control API stops.
pub(crate) struct Listener {
    socket: TcpListener,
    within: Door,
    beyond: Door,
    counts: Arc<Listening>,
    warned: Option<Instant>,
}

/// A number of places, and what a connection that has one meets.
struct Door {
    places: Arc<Semaphore>,
    http: Router,
    patience: Patience,
    /// Whether one request may follow another.
    lasting: bool,
}

impl Door {
    /// For connections within the limit.
    fn within(http: Router, head_timeout: Duration) -> Self {
        Self {
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            http,
            patience: Patience::new(head_timeout, IDLE_WAIT),
            lasting: true,
        }
    }

    /// For those beyond it.
    fn beyond(http: Router, head_timeout: Duration) -> Self {
        Self {
            places: Arc::new(Semaphore::new(REFUSED_MAX)),
            http,
            patience: Patience::new(REFUSED_WAIT.min(head_timeout), Duration::ZERO),
            lasting: false,
        }
    }

    fn enter(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// All that becomes of a connection, to be polled to its end.
    fn connection<S>(
        &self,
        stream: S,
    ) -> impl GracefulConnection<Error = hyper::Error, Output = hyper::Result<()>> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let http = self.http.clone();
        let http = http.map_request(|request: Request<Incoming>| request.map(Body::new));
        Builder::new()
            .timer(self.patience.of_a_connection())
            .header_read_timeout(self.patience.head)
            .max_header_size(HEAD_BYTES_MAX)
            .keep_alive(self.lasting)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(http))
    }
}

/// What connections meet, and where they are counted.
pub(crate) struct Entrance {
    /// What those within the limit meet.
    pub(crate) within: Router,
    /// What those beyond it meet.
    pub(crate) beyond: Router,
    /// Where all are counted.
    pub(crate) counts: Arc<Listening>,
}

impl Listener {
    pub(crate) fn new(socket: TcpListener, entrance: Entrance, head_timeout: Duration) -> Self {
        Self {
            socket,
            counts: entrance.counts,
            within: Door::within(entrance.within, head_timeout),
            beyond: Door::beyond(entrance.beyond, head_timeout),
            warned: None,
        }
    }

    /// Accepts until told to stop; then lets requests under way finish, and idle connections go.
    pub(crate) async fn serve(mut self, mut stopped: oneshot::Receiver<()>) {
        let all = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                _ = &mut stopped => break,
            };
            match accepted {
                Ok((stream, _)) => self.admit(stream, &all),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => self.pause(&error).await,
            }
        }
        drop(self);
        all.shutdown().await;
    }

    /// Gives the connection a place and a task, or closes it when even those who are refused are
    /// too many.
    fn admit(&self, stream: TcpStream, all: &GracefulShutdown) {
        let (door, place) = match self.within.enter() {
            Some(place) => (&self.within, place),
            None => {
                self.counts.refuse();
                let Some(place) = self.beyond.enter() else {
                    return;
                };
                (&self.beyond, place)
            }
        };
        prepare(&stream);
        let connection = all.watch(door.connection(stream));
        let counted = self.counts.enter();
        tokio::spawn(async move {
            if connection.await.is_err_and(|error| error.is_timeout()) {
                counted.cut();
            }
            drop((counted, place));
        });
    }

    /// Waits for a descriptor to come free.
    async fn pause(&mut self, error: &io::Error) {
        self.counts.pause();
        let now = Instant::now();
        if self
            .warned
            .is_none_or(|warned| now - warned >= PAUSE_WARNING_INTERVAL)
        {
            self.warned = Some(now);
            tracing::warn!(
                %error,
                "the control listener cannot take another connection and pauses; raise the limit \
                 on open files (ulimit -n, LimitNOFILE=) or use --private-fds"
            );
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

/// Whether the error is about a connection that went away, and not about this listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

/// Sets what is as well left alone where the system does not know it.
fn prepare(stream: &TcpStream) {
    // Streamed receipts are small and wanted at once.
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_TIME)
        .with_interval(KEEPALIVE_INTERVAL);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}
