//! The control API: publishing, subscriptions, sessions, statistics, metrics, OpenAPI.
//!
//! Owns its own threads, the only ones of the server that run an async runtime. Must never touch a
//! connection except through the server's handle. Modules in the order in which a request meets
//! them:

#![warn(missing_docs)]

/// Every bound of the control API and its reason.
mod limits;
/// Threads, listener, beginning and end.
mod control;
/// The accept loop: who is let in, and how long a connection may be silent.
mod listener;
/// What the control API needs of the server behind it.
mod backend;
/// What every handler shares.
mod api;
/// Which path and method lead to which handler.
mod routes;
/// Who may come in: the token, and no foreign web page.
mod guard;
/// The end of a connection whose request was not read whole.
mod unread;
/// Errors as RFC 9457 problem details.
mod problem;
/// What the path and the query say.
mod query;
/// Whole request bodies.
mod body;
/// The items of a streamed body: bytes in, items out.
mod items;
/// Streamed request bodies and what is wrong with their lines.
mod stream;
/// The content of an event.
mod payload;
/// What a publisher is told.
mod receipt;
/// One event on one request.
mod publish;
/// Many events on one request.
mod batch;
/// Changes of the graph, waited for without holding a thread.
mod change;
/// One edge, and reading the graph.
mod subscriptions;
/// All subscriptions of an id at once.
mod whole;
/// Many edges on one request.
mod bulk;
/// A copy of the graph.
mod backup;
/// Inspecting and closing sessions.
mod sessions;
/// What every program says of its run.
mod run;
/// Metrics as JSON.
mod stats;
/// Metrics for Prometheus, and those that the control API counts itself.
mod metrics;
/// Health, readiness and the OpenAPI page.
mod health;
/// Requests that the page makes through the public listener.
mod relay;
/// The secret of the demo page, for the page alone.
mod demo;
/// Read-only admin endpoints of `proxy` and `hello`.
mod admin;

pub use admin::{AdminConfig, AdminSource, BackendReport, Backends, serve_admin};
pub use backup::ERLANG_IDS;
pub use control::{Config, Control, Listen, StartError, Threads, start};
pub use demo::Demo;

#[cfg(test)]
mod tests;
