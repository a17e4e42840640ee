//! Read-only admin endpoints of `proxy` and `hello`.
//!
//! Owns their routes. Threads, listener, authorization and formats are those of the control API.
//! Must never wait for a worker: metrics are read without its help.

#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "a test is the client")]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use reactor::Snapshot;
use serde::Serialize;

use crate::caller::Need::{Nothing, Right};
use crate::control::{self, Control, Listen, Socket, Threads};
use crate::error::StartError;
use crate::health;
use crate::limits::{ADMIN_HEAD_TIMEOUT, Limits};
use crate::listener::Entry;
use crate::live_tokens::LiveTokens;
use crate::metrics::listener::{ListenerCounts, ListenerMetrics};
use crate::metrics::text::{Kind, Text};
use crate::metrics::{self, exposition};
use crate::problem::{Answered, Problem, in_json, method_not_allowed};
use crate::query::Query;
use crate::routes::{Route, at, require_authorization, with_needs};
use crate::run::Run;
use crate::stats::Metrics;
use crate::tokens::{self, Tokens};

/// A running program with read-only admin endpoints.
pub trait AdminSource: Send + Sync + 'static {
    /// Returns the command that runs the program: `proxy` or `hello`.
    fn program(&self) -> &'static str;

    /// Returns the metrics of its workers.
    fn snapshot(&self) -> Snapshot;

    /// Returns whether the program is shutting down.
    fn is_draining(&self) -> bool;

    /// Returns its backends, if it is a proxy.
    fn backends(&self) -> Option<Backends>;
}

/// The backends of all listeners of a proxy at one time.
#[derive(Debug, Clone)]
pub struct Backends {
    /// Every state that a backend can be in, in the order in which metrics list them.
    pub states: &'static [&'static str],
    /// A report for each backend of each listener, in the order of the configuration.
    pub reports: Vec<BackendReport>,
}

/// A backend of one listener at one time.
#[derive(Debug, Clone, Serialize)]
pub struct BackendReport {
    /// The address of the listener.
    pub listener: SocketAddr,
    /// The backend as the configuration names it.
    pub backend: String,
    /// The address that the name stands for.
    pub address: SocketAddr,
    /// One of [`Backends::states`].
    pub state: &'static str,
    /// Open connections, including attempts to connect.
    pub connections: u32,
    /// Attempts to connect since the backend was added.
    pub connects: u64,
    /// Attempts to connect that failed.
    pub connects_failed: u64,
}

/// Configuration of admin endpoints.
#[derive(Debug)]
pub struct AdminConfig {
    /// The address of the control listener; port 0 takes a free port.
    pub listen: SocketAddr,
    /// The bearer token that requests must carry. Needed when the address is not on loopback.
    pub token: Option<String>,
    /// The id of this run.
    pub epoch: String,
}

/// Serves the admin endpoints of a program, on threads of their own.
///
/// Unlike the threads of a server's control API they may be started after the workers, which never
/// wake them.
///
/// # Errors
///
/// When the configuration is not safe, the address cannot be bound or threads cannot be started.
pub fn serve_admin(config: AdminConfig, source: impl AdminSource) -> Result<Control, StartError> {
    let tokens = match &config.token {
        Some(secret) => Tokens::single(secret).map_err(StartError::Tokens)?,
        None => Tokens::default(),
    };
    let socket = Socket::open(Listen::Address(config.listen), tokens)?;
    let admin = Arc::new(Admin {
        source: Box::new(source),
        epoch: config.epoch,
        started: Instant::now(),
        listening: Arc::default(),
        tokens: socket.tokens.clone(),
    });
    let entrance = Entry {
        counts: admin.listening.clone(),
        limits: Limits::USUAL,
        tls: None,
        http: http(admin),
    };
    let Threads(runtime) = Threads::start()?;
    control::serve((socket, entrance), None, runtime, ADMIN_HEAD_TIMEOUT)
}

/// The state that all handlers share.
struct Admin {
    source: Box<dyn AdminSource>,
    epoch: String,
    started: Instant,
    listening: Arc<ListenerMetrics>,
    tokens: LiveTokens,
}

type Shared = Arc<Admin>;

impl Admin {
    fn run(&self) -> Run {
        let draining = self.source.is_draining();
        Run::new(self.source.program(), &self.epoch, self.started, draining)
    }
}

#[derive(Serialize)]
struct Stats {
    #[serde(flatten)]
    run: Run,
    control: ListenerCounts,
    #[serde(flatten)]
    metrics: Metrics,
    #[serde(skip_serializing_if = "Option::is_none")]
    backends: Option<Vec<BackendReport>>,
}

fn table() -> Vec<Route<Shared>> {
    let table = [
        at("/v1/stats").get(Right(tokens::Right::Metrics), stats),
        at("/metrics").get(Right(tokens::Right::Metrics), metrics),
        at("/healthz").get(Nothing, health::healthz),
        at("/livez").get(Nothing, health::healthz),
        at("/readyz").get(Nothing, readyz),
    ];
    table.into_iter().flat_map(|at| at.routes).collect()
}

fn http(admin: Shared) -> Router {
    let tokens = admin.tokens.clone();
    let routes = with_needs(table(), &tokens)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(admin);
    require_authorization(routes, tokens)
}

/// `GET /v1/stats`
async fn stats(State(admin): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    let stats = Stats {
        run: admin.run(),
        control: admin.listening.visits(),
        metrics: Metrics::of(&admin.source.snapshot()),
        backends: admin.source.backends().map(|backends| backends.reports),
    };
    in_json(stats)
}

/// `GET /metrics`
async fn metrics(State(admin): State<Shared>, fields: HeaderMap) -> Response {
    exposition(&fields, |text| {
        admin.run().write(text);
        admin.listening.visits().write(text);
        metrics::write_tokens(text, &admin.tokens.counts());
        metrics::snapshot::write(text, &admin.source.snapshot());
        if let Some(backends) = admin.source.backends() {
            backends.write(text);
        }
    })
}

/// `GET /readyz`: whether the program takes new clients.
async fn readyz(State(admin): State<Shared>) -> Answered {
    health::ready(admin.source.is_draining())
}

/// Answers unknown paths.
async fn not_found(request: Request) -> Problem {
    let path = request.uri().path();
    let there: Vec<&str> = table().iter().map(|(path, ..)| *path).collect();
    Problem::new(
        StatusCode::NOT_FOUND,
        format!(
            "there is nothing at {path:?}; the paths are {}",
            there.join(", ")
        ),
    )
}

impl Backends {
    /// Writes them for Prometheus.
    fn write(&self, text: &mut Text) {
        // A name may be listed more than once, for its weight, but no two series may have the same
        // labels.
        let mut series: BTreeMap<(String, &str), Vec<&BackendReport>> = BTreeMap::new();
        for report in &self.reports {
            let labels = (report.listener.to_string(), &*report.backend);
            series.entry(labels).or_default().push(report);
        }
        let mut states = text.known(Kind::Gauge, "backend_state");
        for ((listener, backend), reports) in &series {
            for state in self.states {
                let labels = [
                    ("listener", &**listener),
                    ("backend", backend),
                    ("state", state),
                ];
                let count = reports.iter().filter(|report| report.state == *state);
                states.sample(&labels, count.count() as f64);
            }
        }
        let mut family = |kind, name, value: fn(&BackendReport) -> u64| {
            let mut samples = text.known(kind, name);
            for ((listener, backend), reports) in &series {
                let labels = [("listener", &**listener), ("backend", backend)];
                let sum: u64 = reports.iter().map(|report| value(report)).sum();
                match kind {
                    Kind::Gauge => samples.sample(&labels, sum as f64),
                    _ => samples.sample(&labels, sum),
                }
            }
        };
        family(Kind::Gauge, "backend_connections", |it| {
            it.connections.into()
        });
        family(Kind::Counter, "backend_connects", |it| it.connects);
        family(Kind::Counter, "backend_connects_failed", |it| {
            it.connects_failed
        });
    }
}
