//! The accept loop of the control listener: admission, timeouts and shutdown of connections.
//!
//! Connections that are silent or slow before their request is read are bounded in number and time,
//! as no token has been checked by then. Must never look into a request.

/// A connection on which hyper sees checked heads only.
mod checked_stream;
/// Boundaries of requests, and the rules for their heads.
mod framing;
/// Boundaries of chunked bodies.
mod chunks;
/// Timeouts for request heads.
mod head_timeout;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

use crate::limits::{
    ACCEPT_PAUSE, CONNECTIONS_MAX, IDLE_WAIT, KEEPALIVE_INTERVAL, KEEPALIVE_TIME,
    PAUSE_WARNING_INTERVAL, REFUSED_MAX, REFUSED_WAIT,
};
use crate::metrics::ListenerMetrics;
use crate::problem::Problem;
use checked_stream::{CheckedStream, RefusedHead};
use head_timeout::HeadTimeouts;

/// The control listener. Lives in a task of its own until the control API stops.
pub(crate) struct Listener {
    socket: TcpListener,
    within: Admission,
    beyond: Admission,
    counts: Arc<ListenerMetrics>,
    warned: Option<Instant>,
}

/// Admission of connections: their maximum number, and how admitted ones are served.
struct Admission {
    places: Arc<Semaphore>,
    http: Router,
    timeouts: HeadTimeouts,
    /// Whether a connection may carry more than one request.
    lasting: bool,
}

impl Admission {
    /// Admission within the limit.
    fn within(http: Router, head_timeout: Duration) -> Self {
        Self {
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            http,
            timeouts: HeadTimeouts::new(head_timeout, IDLE_WAIT),
            lasting: true,
        }
    }

    /// Admission beyond the limit, to be refused.
    fn beyond(http: Router, head_timeout: Duration) -> Self {
        Self {
            places: Arc::new(Semaphore::new(REFUSED_MAX)),
            http,
            timeouts: HeadTimeouts::new(REFUSED_WAIT.min(head_timeout), Duration::ZERO),
            lasting: false,
        }
    }

    fn enter(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Serves a connection, as a future to be polled to its end.
    fn connection<S>(
        &self,
        stream: S,
    ) -> impl GracefulConnection<Error = hyper::Error, Output = hyper::Result<()>> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let refused = RefusedHead::default();
        let stream = CheckedStream::new(stream, refused.clone());
        Builder::new()
            .timer(self.timeouts.connection_timer())
            .header_read_timeout(self.timeouts.head)
            .keep_alive(self.lasting)
            .serve_connection(TokioIo::new(stream), service(self.http.clone(), refused))
    }
}

/// Answers the requests of one connection: a refused head with the reason.
fn service(
    http: Router,
    refused: RefusedHead,
) -> impl HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> {
    let number = AtomicU64::new(0);
    service_fn(move |request: Request<Incoming>| {
        let refused = refused.of_request(number.fetch_add(1, Relaxed));
        let http = http.clone();
        async move {
            match refused {
                Some(error) => Ok(Problem::bad_head(error).into_response()),
                None => http.oneshot(request.map(Body::new)).await,
            }
        }
    })
}

/// Routes for connections, and the metrics that count them.
pub(crate) struct Entry {
    /// Routes for connections within the limit.
    pub(crate) within: Router,
    /// Routes for connections beyond the limit.
    pub(crate) beyond: Router,
    /// Metrics of all connections.
    pub(crate) counts: Arc<ListenerMetrics>,
}

impl Listener {
    pub(crate) fn new(socket: TcpListener, entrance: Entry, head_timeout: Duration) -> Self {
        Self {
            socket,
            counts: entrance.counts,
            within: Admission::within(entrance.within, head_timeout),
            beyond: Admission::beyond(entrance.beyond, head_timeout),
            warned: None,
        }
    }

    /// Accepts connections until stopped; then waits for requests under way and closes idle
    /// connections.
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

    /// Pauses accepting until a file descriptor may be free.
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
                "the control listener cannot accept another connection and pauses; raise the limit \
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
