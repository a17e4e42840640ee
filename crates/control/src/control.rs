//! The control API as a whole: threads, listeners, start and stop.
//!
//! Owns the async runtime. Must never be called from a thread of that runtime.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use server::{DemoPage, Handle};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use webhook::Webhook;

use crate::api::Api;
use crate::client_events::ClientEvents;
use crate::demo::Demo;
use crate::error::StartError;
use crate::idempotency::RestoredKey;
use crate::jwks::JwksMetrics;
use crate::limits::{Limits, STOP_WAIT, THREADS};
use crate::listener::{Entry, Listener, LiveTls};
use crate::live_tokens::LiveTokens;
use crate::replicated::Replicated;
use crate::shared::own::OwnState;
use crate::time::now;
use crate::tokens::Tokens;
use crate::{demo, routes};

/// Listener of the control API.
#[derive(Debug)]
pub enum Listen {
    /// An address to bind. Port 0 takes a free port.
    Address(SocketAddr),
    /// A socket that is bound already, from a service manager.
    Inherited(TcpListener),
}

/// Configuration of the control API.
#[derive(Debug)]
pub struct Config {
    /// The listener.
    pub listen: Listen,
    /// A further listener that has only metrics and health checks. On loopback, local programs need
    /// no token there; elsewhere the right `metrics` is needed.
    pub metrics_listen: Option<SocketAddr>,
    /// TLS of both listeners; `None` for plain HTTP.
    pub tls: Option<tls::ServerConfig>,
    /// The tokens of which a request needs one. Required if the address is not on loopback.
    pub tokens: Tokens,
    /// Largest payload of an event, in bytes.
    pub event_bytes_max: usize,
    /// Time for a new connection to send the head of a request.
    pub head_timeout: Duration,
    /// Lets the page on the public listener publish and subscribe. Only on loopback and without a
    /// token, as the page's requests carry none.
    pub demo: Option<Demo>,
    /// Lets clients of the public listener publish, as their tokens allow.
    pub client_publish: bool,
    /// The key sets whose metrics are shown.
    pub key_sets: JwksMetrics,
    /// Idempotency keys from the history on disk, in its order.
    pub restored_keys: Vec<RestoredKey>,
    /// The log of the cluster, to which events and changes are appended. `None` on a single server.
    pub replicated: Option<Replicated>,
    /// The webhook whose metrics are shown, if there is one.
    pub webhook: Option<Arc<Webhook>>,
}

/// A running control API. Dropping it stops it at once.
#[derive(Debug)]
pub struct Control {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    tokens: LiveTokens,
    tls: Option<LiveTls>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    runtime: Runtime,
    listeners: Vec<Serving>,
}

/// A listener that accepts connections.
#[derive(Debug)]
struct Serving {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// The threads of the control API, and the descriptor that wakes them.
///
/// Must be started before the server's workers: a worker with its own descriptor table has only the
/// descriptors that existed when it started, and settles a receipt by writing to the one that wakes
/// these threads.
#[derive(Debug)]
pub struct Threads(pub(crate) Runtime);

impl Threads {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// [`StartError::Threads`].
    pub fn start() -> Result<Self, StartError> {
        runtime().map(Self).map_err(StartError::Threads)
    }
}

/// Starts the control API of a server on threads that were started before its workers.
///
/// # Errors
///
/// When the configuration is not safe or the address cannot be bound.
pub fn start(config: Config, threads: Threads, server: Handle) -> Result<Control, StartError> {
    start_within(Limits::USUAL, config, threads, server)
}

pub(crate) fn start_within(
    limits: Limits,
    config: Config,
    Threads(runtime): Threads,
    server: Handle,
) -> Result<Control, StartError> {
    let is_open = config.tokens.is_empty();
    let socket = Socket::open(config.listen, config.tokens)?;
    let metrics = config.metrics_listen.map(|address| {
        let listen = Listen::Address(address);
        Socket::open_metrics(listen, &socket.tokens)
    });
    let metrics = metrics.transpose()?;
    let is_private = is_open && socket.address.ip().is_loopback();
    if config.demo.is_some() && !is_private {
        return Err(StartError::DemoNotPrivate);
    }
    let tokens = socket.tokens.clone();
    let own = match &config.replicated {
        None => OwnState::load(&server, now(), &limits).map_err(StartError::Stored)?,
        Some(_) => OwnState::new(&limits),
    };
    let api = Api {
        key_sets: config.key_sets,
        own,
        replicated: config.replicated,
        webhook: config.webhook,
        ..Api::new(server, tokens, config.event_bytes_max, limits)
    };
    if let Some(replicated) = &api.replicated {
        replicated.shared.join_presence(&replicated.log);
    }
    if let Some(replicated) = api.replicated.clone() {
        let announcer = Box::new(move |news| replicated.announce(news));
        api.server.announce_tickets_with(announcer);
    }
    let api = Arc::new(api);
    for key in &config.restored_keys {
        api.keys.restore(api.router(), key);
    }
    if config.client_publish {
        let events = ClientEvents::new(runtime.handle().clone(), Arc::downgrade(&api));
        api.server
            .publish_for_clients(Box::new(events), config.event_bytes_max)
            .map_err(StartError::Threads)?;
    }
    let mut within = routes::router(api.clone());
    if let Some(demo) = config.demo {
        api.tokens.open_demo();
        api.server.open_demo(DemoPage::new(socket.address));
        within = within.merge(demo::routes(demo, api.clone()));
    }
    let tls = config.tls.as_ref().map(LiveTls::new);
    let entrance = Entry {
        http: within,
        counts: api.listening.clone(),
        limits,
        tls: tls.clone(),
    };
    let metrics = metrics.map(|socket| {
        let entry = Entry {
            http: routes::metrics_router(api, socket.tokens.clone()),
            counts: Arc::default(),
            limits,
            tls,
        };
        (socket, entry)
    });
    serve((socket, entrance), metrics, runtime, config.head_timeout)
}

/// Accepts connections.
pub(crate) fn serve(
    (control, entry): (Socket, Entry),
    metrics: Option<(Socket, Entry)>,
    runtime: Runtime,
    head_timeout: Duration,
) -> Result<Control, StartError> {
    let (address, tokens) = (control.address, control.tokens.clone());
    let tls = entry.tls.clone();
    let metrics_address = metrics.as_ref().map(|(socket, _)| socket.address);
    let listeners = std::iter::once((control, entry))
        .chain(metrics)
        .map(|(socket, entry)| socket.serve(&runtime, entry, head_timeout))
        .collect::<Result<_, _>>()?;
    Ok(Control {
        address,
        metrics_address,
        tokens,
        tls,
        running: Some(Running { runtime, listeners }),
    })
}

/// A bound control listener that is not served yet.
pub(crate) struct Socket {
    listener: TcpListener,
    address: SocketAddr,
    pub(crate) tokens: LiveTokens,
}

impl Socket {
    /// Binds a listener. Refuses an address that other machines could use without a token.
    pub(crate) fn open(listen: Listen, tokens: Tokens) -> Result<Self, StartError> {
        let listener = match listen {
            Listen::Address(address) => {
                TcpListener::bind(address).map_err(|error| StartError::Bind { address, error })?
            }
            Listen::Inherited(listener) => listener,
        };
        listener
            .set_nonblocking(true)
            .map_err(StartError::Listener)?;
        let address = listener.local_addr().map_err(StartError::Listener)?;
        let may_be_open = address.ip().is_loopback();
        if tokens.is_empty() && !may_be_open {
            return Err(StartError::TokenMissing { address });
        }
        Ok(Self {
            listener,
            address,
            tokens: LiveTokens::new(tokens, may_be_open),
        })
    }

    /// Binds the listener for metrics. On loopback, local programs need no token. Elsewhere it has
    /// the tokens of the API, of which there must be at least one as long as it listens.
    fn open_metrics(listen: Listen, api: &LiveTokens) -> Result<Self, StartError> {
        let mut socket = Self::open(listen, api.current())?;
        if socket.address.ip().is_loopback() {
            socket.tokens = LiveTokens::new(Tokens::default(), true);
        } else {
            api.keep_closed();
            socket.tokens = api.clone();
        }
        Ok(socket)
    }

    fn serve(
        self,
        runtime: &Runtime,
        entrance: Entry,
        head_timeout: Duration,
    ) -> Result<Serving, StartError> {
        let address = self.address;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener).map_err(StartError::Listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let listener = Listener::new(listener, entrance, head_timeout);
        let task = runtime.spawn(listener.serve(stopped));
        tracing::debug!(%address, "the control API is listening");
        Ok(Serving { stop, task })
    }
}

fn runtime() -> io::Result<Runtime> {
    let number = AtomicUsize::new(0);
    Builder::new_multi_thread()
        .worker_threads(THREADS)
        // Nothing here blocks, so no other threads are made.
        .max_blocking_threads(1)
        .thread_name_fn(move || format!("encke-control-{}", number.fetch_add(1, Ordering::Relaxed)))
        .enable_io()
        .enable_time()
        .build()
}

impl Control {
    /// Returns the address it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the listener for metrics alone, if there is one.
    pub const fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Returns the tokens in force, for a reload from any thread.
    pub fn tokens(&self) -> LiveTokens {
        self.tokens.clone()
    }

    /// Returns the TLS configuration in force, for a reload from any thread. None without TLS.
    pub fn tls(&self) -> Option<LiveTls> {
        self.tls.clone()
    }

    /// Stops listening, waits up to two seconds for requests in flight, and ends the threads.
    pub fn stop(mut self) {
        let Some(Running { runtime, listeners }) = self.running.take() else {
            return;
        };
        let ending: Vec<_> = listeners
            .into_iter()
            .map(|Serving { stop, task }| {
                let _ = stop.send(());
                task
            })
            .collect();
        let all = async {
            for task in ending {
                let _ = task.await;
            }
        };
        let ended = runtime.block_on(async { timeout(STOP_WAIT, all).await });
        if ended.is_err() {
            tracing::warn!("control requests that took longer than {STOP_WAIT:?} were aborted");
        }
        runtime.shutdown_background();
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.runtime.shutdown_background();
        }
    }
}
