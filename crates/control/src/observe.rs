//! Programs that are looked at and take no orders: the proxy, and the server that says hello.
//!
//! Owns their routes. Threads, listener, guard and forms are those of the control API. Must never ask a
//! worker anything: what it counts can be read without its help.

/// What is looked at.
mod observed;
/// Backends as they are told.
mod backends;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Json, Router};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use reactor::Snapshot;
use serde::Serialize;

use crate::control::{Control, Listen, Socket, StartError, Threads};
use crate::guard::OPEN;
use crate::health;
use crate::limits::{CONNECTIONS_MAX, OBSERVER_HEAD_TIMEOUT};
use crate::listener::Entrance;
use crate::metrics::{Listening, Visits, exposition, snapshot};
use crate::problem::Problem;
use crate::query::Query;
use crate::routes::{guarded, wrong_method};
use crate::run::Run;
use crate::stats::Metrics;
use backends::Backends;
pub use observed::Observed;

/// What an operator decides about looking at a program.
#[derive(Debug)]
pub struct ObserverConfig {
    /// Where the control listener is; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The bearer token that requests must carry. Needed when the address is not on loopback.
    pub token: Option<String>,
    /// Names this run.
    pub epoch: String,
}

/// Lets a program be looked at, on threads of its own. Unlike those of a server's control API they may
/// be younger than its workers, which have nothing to say to them.
///
/// # Errors
///
/// When the configuration is not safe, the address cannot be bound or there are no threads.
pub fn observe(config: ObserverConfig, program: impl Observed) -> Result<Control, StartError> {
    let socket = Socket::open(Listen::Address(config.listen), config.token)?;
    let observer = Arc::new(Observer {
        program: Box::new(program),
        epoch: config.epoch,
        started: Instant::now(),
        listening: Arc::default(),
    });
    let entrance = Entrance {
        within: guarded(within(observer.clone()), socket.token.clone()),
        counts: observer.listening.clone(),
        beyond: beyond(observer),
    };
    let Threads(runtime) = Threads::start()?;
    socket.serve(runtime, entrance, OBSERVER_HEAD_TIMEOUT)
}

/// What every handler shares.
struct Observer {
    program: Box<dyn Observed>,
    epoch: String,
    started: Instant,
    listening: Arc<Listening>,
}

type Shared = Arc<Observer>;

impl Observer {
    fn look(&self) -> Look {
        let ending = self.program.is_ending();
        Look {
            run: Run::new(self.program.name(), &self.epoch, self.started, ending),
            control: self.listening.visits(),
            metrics: self.program.snapshot(),
            backends: self.program.backends().map(Backends),
        }
    }
}

/// A program at one time.
#[derive(Debug)]
struct Look {
    run: Run,
    control: Visits,
    metrics: Snapshot,
    backends: Option<Backends>,
}

#[derive(Serialize)]
struct Stats {
    #[serde(flatten)]
    run: Run,
    control: Visits,
    #[serde(flatten)]
    metrics: Metrics,
    #[serde(skip_serializing_if = "Option::is_none")]
    backends: Option<Backends>,
}

fn table() -> Vec<(&'static str, MethodRouter<Shared>)> {
    vec![
        ("/v1/stats", get(stats)),
        ("/metrics", get(metrics)),
        ("/healthz", get(health::healthz)),
        ("/livez", get(health::healthz)),
        ("/readyz", get(readyz)),
    ]
}

fn within(observer: Shared) -> Router {
    routes(table(), observer).fallback(lost)
}

fn beyond(observer: Shared) -> Router {
    let mut open = table();
    open.retain(|(path, _)| OPEN.contains(path));
    routes(open, observer).fallback(crowded)
}

fn routes(table: Vec<(&'static str, MethodRouter<Shared>)>, observer: Shared) -> Router {
    table
        .into_iter()
        .fold(Router::new(), |router, (path, handler)| {
            router.route(path, handler)
        })
        .method_not_allowed_fallback(wrong_method)
        .with_state(observer)
}

/// `GET /v1/stats`
async fn stats(State(observer): State<Shared>, request: Request) -> Result<Response, Problem> {
    Query::parse(request.uri(), &[])?;
    let look = observer.look();
    let stats = Stats {
        run: look.run,
        control: look.control,
        metrics: Metrics::of(&look.metrics),
        backends: look.backends,
    };
    Ok(Json(stats).into_response())
}

/// `GET /metrics`
async fn metrics(State(observer): State<Shared>) -> Result<Response, Problem> {
    exposition(observer.look())
}

impl Collector for Look {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.run.encode(encoder)?;
        self.control.encode(encoder)?;
        snapshot::encode(encoder, &self.metrics)?;
        match &self.backends {
            Some(backends) => backends.encode(encoder),
            None => Ok(()),
        }
    }
}

/// `GET /readyz`: new clients are welcome.
async fn readyz(State(observer): State<Shared>) -> Result<Response, Problem> {
    health::ready(observer.program.is_ending())
}

/// Answers who comes beyond the limit.
async fn crowded() -> Problem {
    Problem::unavailable(format!(
        "the control listener has {CONNECTIONS_MAX} connections, as many as it takes; close some \
         that are not needed"
    ))
}

/// Answers a path that leads nowhere.
async fn lost(request: Request) -> Problem {
    let path = request.uri().path();
    let there: Vec<&str> = table().iter().map(|(path, _)| *path).collect();
    Problem::new(
        StatusCode::NOT_FOUND,
        format!(
            "there is nothing at {path:?}; there is {}",
            there.join(", ")
        ),
    )
}
