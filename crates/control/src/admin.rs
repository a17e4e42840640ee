//! Read-only admin endpoints of `proxy` and `hello`.
//!
//! Owns their routes. Threads, listener, authorization and formats are those of the control API.
//! Must never wait for a worker: metrics are read without its help.

/// The interface to the program.
mod source;
/// Backends of a proxy, for Prometheus.
mod backends;
#[cfg(test)]
#[expect(clippy::disallowed_types, reason = "a test is the client")]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use serde::Serialize;

use crate::caller::Need::{Nothing, Right};
use crate::control::{self, Control, Listen, Socket, Threads};
use crate::error::StartError;
use crate::health;
use crate::limits::{ADMIN_HEAD_TIMEOUT, Limits};
use crate::listener::Entry;
use crate::live_tokens::LiveTokens;
use crate::metrics::listener::{ListenerCounts, ListenerMetrics};
use crate::metrics::{self, exposition};
use crate::problem::{Answered, Problem, in_json, method_not_allowed};
use crate::query::Query;
use crate::routes::{Route, require_authorization, with_needs};
use crate::run::Run;
use crate::stats::Metrics;
use crate::tokens::{self, Tokens};
pub use source::{AdminSource, BackendReport, Backends};

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
    vec![
        (
            "/v1/stats",
            "get",
            Right(tokens::Right::Metrics),
            get(stats),
        ),
        (
            "/metrics",
            "get",
            Right(tokens::Right::Metrics),
            get(metrics),
        ),
        ("/healthz", "get", Nothing, get(health::healthz)),
        ("/livez", "get", Nothing, get(health::healthz)),
        ("/readyz", "get", Nothing, get(readyz)),
    ]
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
