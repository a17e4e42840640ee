//! The accept loop of the control listener: admission, timeouts and shutdown of connections.
//!
//! Connections that are silent or slow before their request is read are bounded in number and time,
//! as no token has been checked by then. Must never look into a request.

/// TLS handshakes, and the configuration that a reload replaces.
mod handshake;
/// Descriptors that are kept for this listener.
mod reserve;
/// A connection on which hyper sees checked heads only, and which fails when its client does not
/// read.
mod checked_stream;
/// Boundaries of requests, and the rules for their heads.
mod framing;
/// Boundaries of chunked bodies.
mod chunks;
/// Timeouts for request heads.
mod head_timeout;
/// Request bodies that an answer did not need.
mod unread_body;
/// The control API over simulated connections.
#[cfg(feature = "sim")]
pub(crate) mod sim;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;
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
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::limits::{
    ACCEPT_PAUSE, KEEPALIVE_INTERVAL, KEEPALIVE_TIME, Limits, PAUSE_WARNING_INTERVAL,
    READ_BYTES_MAX,
};
use crate::metrics::listener::ListenerMetrics;
use crate::places::{Place, Places};
use crate::problem::Problem;
use checked_stream::{CheckedStream, RefusedHead};
pub use handshake::LiveTls;
use handshake::accept;
use head_timeout::connection_timer;
use reserve::{Reserve, Socket};

/// The control listener. Lives in a task of its own until the control API stops.
pub(crate) struct Listener {
    socket: TcpListener,
    service: ConnectionService,
    tls: Option<LiveTls>,
    /// Dropped when the listener stops, which ends handshakes.
    stopping: watch::Sender<()>,
    places: Arc<Places>,
    reserve: Arc<Reserve>,
    counts: Arc<ListenerMetrics>,
    warned: Option<Instant>,
}

/// How connections are served.
#[derive(Clone)]
struct ConnectionService {
    http: Router,
    head_timeout: Duration,
}

impl ConnectionService {
    /// Serves a connection that has been there since `begun`, as a future to be polled to its end.
    fn connection<S>(
        &self,
        stream: S,
        begun: Instant,
        place: Arc<Place>,
    ) -> impl GracefulConnection<Error = hyper::Error, Output = hyper::Result<()>> + Send + use<S>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let refused = RefusedHead::default();
        let stream = CheckedStream::new(stream, refused.clone());
        Builder::new()
            .timer(connection_timer(
                self.head_timeout,
                begun,
                Arc::clone(&place),
            ))
            .header_read_timeout(self.head_timeout)
            .max_buf_size(READ_BYTES_MAX)
            .serve_connection(
                TokioIo::new(stream),
                service(self.http.clone(), refused, place),
            )
    }
}

/// Answers the requests of one connection: a refused head with the reason.
fn service(
    http: Router,
    refused: RefusedHead,
    place: Arc<Place>,
) -> impl HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> {
    let number = AtomicU64::new(0);
    service_fn(move |mut request: Request<Incoming>| {
        place.renew();
        request.extensions_mut().insert(Arc::clone(&place));
        let refused = refused.of_request(number.fetch_add(1, Relaxed));
        let http = http.clone();
        async move {
            match refused {
                Some(error) => Ok(Problem::bad_head(error).into_response()),
                None => unread_body::answer(http, request.map(Body::new)).await,
            }
        }
    })
}

/// Routes for connections, the metrics that count them, and TLS.
pub(crate) struct Entry {
    /// Routes for connections.
    pub(crate) http: Router,
    /// Metrics of all connections.
    pub(crate) counts: Arc<ListenerMetrics>,
    /// Bounds of connections.
    pub(crate) limits: Limits,
    /// TLS, if connections begin with a handshake.
    pub(crate) tls: Option<LiveTls>,
}

impl Listener {
    pub(crate) fn new(socket: TcpListener, entrance: Entry, head_timeout: Duration) -> Self {
        Self {
            socket,
            service: ConnectionService {
                http: entrance.http,
                head_timeout,
            },
            tls: entrance.tls,
            stopping: watch::Sender::new(()),
            places: Places::new(entrance.counts.clone(), head_timeout, entrance.limits),
            reserve: Reserve::take(),
            counts: entrance.counts,
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
                Ok((stream, _)) => {
                    self.admit(stream, &all);
                    self.reserve.refill();
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => self.accept_without_descriptors(&all, &error).await,
            }
        }
        drop(self);
        all.shutdown().await;
    }

    /// Gives the connection a place and a task.
    fn admit(&self, stream: TcpStream, all: &GracefulShutdown) {
        let place = self.places.enter();
        prepare(&stream);
        let socket = Socket::new(stream, Arc::clone(&self.reserve));
        let begun = Instant::now();
        match &self.tls {
            None => {
                let connection = self.service.connection(socket, begun, Arc::clone(&place));
                let connection = all.watch(connection);
                self.spawn(place, async { Ended::of(connection.await) });
            }
            Some(tls) => {
                let connection = self.secured(tls, socket, begun, Arc::clone(&place), all);
                self.spawn(place, connection);
            }
        }
    }

    /// Makes the handshake on a connection, and then serves it.
    fn secured(
        &self,
        tls: &LiveTls,
        socket: Socket,
        begun: Instant,
        place: Arc<Place>,
        all: &GracefulShutdown,
    ) -> impl Future<Output = Ended> + Send + use<> {
        let handshake = accept(tls.current(), socket);
        let late = begun + self.service.head_timeout;
        let service = self.service.clone();
        let watcher = all.watcher();
        let mut stopping = self.stopping.subscribe();
        async move {
            let stream = tokio::select! {
                made = timeout_at(late, handshake) => match made {
                    Ok(Some(stream)) => stream,
                    Ok(None) => return Ended::Otherwise,
                    Err(_) => return Ended::Late,
                },
                _ = stopping.changed() => return Ended::Otherwise,
            };
            let connection = service.connection(stream, begun, place);
            Ended::of(watcher.watch(connection).await)
        }
    }

    /// Gives a connection a task, in which it is served as long as it may keep its place.
    fn spawn(&self, place: Arc<Place>, connection: impl Future<Output = Ended> + Send + 'static) {
        tokio::spawn(serve_in_place(place, Arc::clone(&self.counts), connection));
    }

    /// Accepts a connection with a descriptor of the reserve, or makes an unauthorized connection
    /// give its descriptor up. Pauses if there is none.
    async fn accept_without_descriptors(&mut self, all: &GracefulShutdown, error: &io::Error) {
        while self.reserve.release() {
            let accepted = poll_fn(|context| Poll::Ready(self.socket.poll_accept(context))).await;
            match accepted {
                Poll::Ready(Ok((stream, _))) => return self.admit(stream, all),
                Poll::Pending => return self.reserve.refill(),
                // Another thread has taken the descriptor.
                Poll::Ready(Err(_)) => {}
            }
        }
        let has_room = self.places.end_oldest()
            && timeout(ACCEPT_PAUSE, self.reserve.returned()).await.is_ok();
        if !has_room {
            self.pause(error).await;
            self.reserve.refill();
        }
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

/// Serves a connection as long as it may keep its place.
async fn serve_in_place(
    place: Arc<Place>,
    counts: Arc<ListenerMetrics>,
    connection: impl Future<Output = Ended>,
) {
    tokio::select! {
        ended = connection => {
            if ended == Ended::Late {
                counts.cut();
            }
        }
        () = place.ended() => {}
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Its handshake or a head did not come in time, or its answer was not read.
    Late,
    Otherwise,
}

impl Ended {
    fn of(served: hyper::Result<()>) -> Self {
        match served {
            Err(error) if error.is_timeout() || is_stall(&error) => Self::Late,
            _ => Self::Otherwise,
        }
    }
}

/// Returns whether the error is that of a client that does not read.
fn is_stall(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error);
    source
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
}

/// Returns whether the error is about a connection that went away, and not about this listener.
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
