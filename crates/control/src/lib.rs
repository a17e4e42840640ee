//! The control API: publishing, subscriptions, sessions, statistics, metrics, OpenAPI.
//!
//! Owns its own threads, the only ones of the server that run an async runtime. Must never touch a
//! connection of the public listener except through the server's handle. Modules are in the order
//! in which a request passes them:

#![warn(missing_docs)]

/// Limits of the control API, each with its reason.
mod limits;
/// Errors that several modules return.
mod error;
/// The time of day.
mod time;
/// The control API as a whole: threads, listener, start and stop.
mod control;
/// The accept loop: admission, TLS handshakes and timeouts of connections.
mod listener;
/// Places of connections: those with authorized requests, and the others.
mod places;
/// State that all handlers share.
mod api;
/// The table of routes.
mod routes;
/// Authorization: bearer tokens, and the refusal of foreign web pages and proxies.
mod authorization;
/// Tokens, their rights, and the file that they come from.
mod tokens;
/// The tokens in force, which a reload replaces.
mod live_tokens;
/// Callers, and what a route needs of them.
mod caller;
/// Types of problems.
mod problem_type;
/// Errors as RFC 9457 problem details.
mod problem;
/// Parameters in the path and the query.
mod query;
/// Whole request bodies.
mod body;
/// The parser that splits a streamed body into items.
mod items;
/// Streamed request bodies, and the errors of their items.
mod stream;
/// JSON of requests and answers, and what is said of JSON that is wrong.
mod json;
/// Payloads of events, from request bodies.
mod payload;
/// CloudEvents, from request bodies.
mod cloudevents;
/// Receipts for publishers.
mod receipt;
/// Answers that are given again to requests with the same `Idempotency-Key`.
mod idempotency;
/// Publishing and changing through the replicated log of a cluster.
mod replicated;
/// State that all nodes of a cluster keep in common.
mod shared;
/// Publishing one event with one request.
mod publish;
/// Publishing many events with one request.
mod batch;
/// Events that clients publish over WebSocket.
mod client_events;
/// The head of the history, and the stored events of a subject.
mod history;
/// Changes of the graph, awaited without blocking a thread.
mod change;
/// Single subscriptions, all of an id, and listing them.
mod subscriptions;
/// Many subscriptions with one request.
mod bulk;
/// Downloads of the graph.
mod backup;
/// Presence for backends.
mod presence_requests;
/// Inspecting and closing sessions.
mod sessions;
/// Whether an id would get what is published about another, and why.
mod explain;
/// Tickets, revocations and bans.
mod identity;
/// Program, version and uptime, which all programs report.
mod run;
/// This node and its cluster.
mod cluster_status;
/// Metrics as JSON.
mod stats;
/// Metrics for Prometheus, and those of the control API itself.
mod metrics;
/// Health and readiness.
mod health;
/// The OpenAPI description.
mod openapi;
/// The console: a page for operators.
mod console;
/// Requests of the demo page.
mod demo;
/// Key sets of issuers, fetched from their JWKS addresses.
mod jwks;
/// Read-only admin endpoints of `proxy` and `hello`.
mod admin;

pub use admin::{AdminConfig, AdminSource, BackendReport, Backends, serve_admin};
pub use control::{Config, Control, Listen, Threads, start};
pub use demo::{Demo, DemoSecret};
pub use error::{StartError, TokensError};
pub use idempotency::RestoredKey;
pub use jwks::{JWKS_URLS_MAX, JwksFetcher, JwksMetrics, JwksStats, KeysChanged};
pub use listener::LiveTls;
#[cfg(feature = "sim")]
pub use listener::sim::SimControl;
pub use live_tokens::LiveTokens;
pub use replicated::Replicated;
pub use shared::SharedState;
pub use tokens::{Right, Tokens};

#[cfg(test)]
mod tests;
