//! The control API as its clients see it, over a router whose workers are played by the test.

pub(crate) mod fake;
mod fake_cluster;
mod fake_log;
mod shared;
mod reference;
mod replicated;
mod cluster;
mod batch;
mod bulk;
mod bounds;
mod client_events;
mod demo;
mod console;
mod errors;
mod explain;
mod graph;
mod history;
mod idempotency;
mod identity;
mod observe;
mod openapi;
mod publish;
mod rights;
mod presence;
#[expect(clippy::disallowed_types, reason = "a test is the client")]
mod tls;
#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test is the client, and waits for the kernel"
)]
mod serve;
