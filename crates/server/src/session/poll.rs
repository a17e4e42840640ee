//! Long polling: requests that wait for events, and are answered from the history.
//!
//! Owns the polls of a worker. A poll is logged in, so that events wake it; what it is answered is
//! everything in the history after its cursor that concerns it. So the history is its only source,
//! and no event can get lost or come twice between two polls. After its answer a poll stays logged
//! in for a while: its client is about to come back on the same connection.

/// What a request asks of its poll.
mod request;
/// What a poll is answered.
mod batch;
/// Those that wait.
mod polls;

pub(crate) use batch::{Batch, BatchFormat, BatchSearch};
pub(crate) use polls::{Polls, Waiting, Wake};
pub(crate) use request::PollRequest;
