//! The control API as its clients see it, over a router whose workers are played by the test.

pub(crate) mod fake;
mod batch;
mod bulk;
mod demo;
mod errors;
mod graph;
mod identity;
mod observe;
mod openapi;
mod publish;
mod rights;
mod page_requests;
#[expect(clippy::disallowed_types, reason = "a test is the client")]
mod tls;
#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test is the client, and waits for the kernel"
)]
mod serve;
