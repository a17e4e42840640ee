//! Connection table of one worker: records, sockets, backlogs, deadlines and metrics.
//!
//! Everything that the kernel is asked about a connection is asked here: the table receives, sends,
//! queues what a full socket does not take, arms deadlines and closes. It knows neither requests
//! nor ids: a session is to it an encoding, a framing and a policy. What a change of a connection
//! means for other stages it keeps as `Ended` and `Closed` until the worker applies them.

/// The record of a connection.
mod connection;
/// Frames that wait for a full socket.
mod backlog;
/// Sending.
mod send;
/// Ends of sessions whose backlogs are full.
mod slow_close;
/// Plaintext to TLS records, for one system call.
mod seal;
/// Values that few connections have, by slot.
mod sparse_slots;
/// Addresses of clients, as they are kept.
mod packed_address;
/// The table itself.
mod connection_table;
/// Addresses of clients behind proxies.
mod client_addresses;
/// TLS connections.
mod tls_connections;
/// Sending over TLS.
mod tls_send;
/// Slow sessions that read on from the history.
mod catch_up;
/// The latest notices of lost events.
mod recent_gaps;
/// Memory of buffers, and connections that give way.
mod give_way;
/// Sending frames of events that the caller keeps.
mod kept_send;
/// Deadlines of connections.
mod deadline;
/// What simulations see of a table.
#[cfg(any(test, feature = "sim"))]
mod sim;

#[cfg(test)]
pub(crate) use backlog::{Backlog, Piece};
pub(crate) use backlog::{Backlogs, FrameMemory, SharedFrame};
pub(crate) use connection::{CloseReason, Connection, Extras, OwedPlace, Phase};
use connection_table::live;
pub(crate) use connection_table::{Behind, ConnectionTable, Ended};
pub(crate) use deadline::Expired;
pub(crate) use kept_send::KeptFrame;
pub(crate) use send::OwedFrame;
pub(crate) use sparse_slots::SparseSlots;
