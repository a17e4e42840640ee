//! Named bounds, each with its reason.

use std::time::Duration;

/// Bytes of the largest message, and of all incomplete messages of one connection: enough for a
/// hundred thousand subscriptions in one call. A larger message is counted and skipped; if it is a
/// call, its caller gets an error.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Bytes of a packet that is accepted however many fragments are held. A fragment has 64 KiB.
pub(crate) const PACKET_BYTES_ALWAYS: usize = 1 << 20;

/// Bytes of one handshake message: a node name and a few numbers.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 1024;

/// Fragmented messages in progress on one connection: one for each process that sends a large
/// message.
pub(crate) const SEQUENCES_MAX: usize = 1024;

/// Time limit of a handshake, as in Erlang itself (`net_setuptime`).
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(7);

/// Open connections. Erlang clusters are smaller; further nodes are turned away.
pub(crate) const CONNECTIONS_MAX: usize = 512;

/// Bytes in a connection's send buffer above which deliveries are queued instead of written. A
/// queued delivery takes eight bytes for each recipient.
pub(crate) const SEND_BUFFER_BYTES_MAX: usize = 1 << 20;

/// Queued recipients of one node: a few events for a million sessions. Further deliveries are shed.
pub(crate) const QUEUED_RECIPIENTS_MAX: usize = 4 << 20;

/// Bytes of queued events of one node. Further deliveries are shed.
pub(crate) const QUEUED_BYTES_MAX: usize = 8 << 20;

/// Bytes in a connection's send buffer above which nothing is read from the node, because answers
/// must not be dropped.
pub(crate) const UNSENT_ANSWERS_BYTES_MAX: usize = 4 << 20;

/// Time after which a node that reads nothing is disconnected.
pub(crate) const STALL_TIME: Duration = Duration::from_secs(60);

/// Calls that may wait for an answer. Each is a publish or a change in progress; further calls are
/// refused.
pub(crate) const CALLS_MAX: usize = 64 * 1024;

/// Bytes of the caller in a call: a pid and a tag, which may be an alias. They are kept until the
/// call is answered and are part of the answer. A message with a longer caller is not treated as a
/// call.
pub(crate) const CALLER_BYTES_MAX: usize = 4096;

/// Bytes that are kept of a packet that is too large: enough to answer the caller if it is a call.
pub(crate) const CALL_BEGINNING_BYTES: usize = 2 * CALLER_BYTES_MAX;

/// Subscriptions in one call. As changes they take several times the bytes of the message.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 100_000;

/// Ids of one process, as for sessions of clients.
pub(crate) use server::IDS_MAX;

/// Session slots that one turn searches for sessions of disconnected nodes.
pub(crate) const SESSIONS_REAPED_PER_TURN: u32 = 8192;

/// Bytes of the original terms of ids: about a million. Further ids are returned as binaries.
pub(crate) const ID_TERMS_BYTES_MAX: usize = 64 << 20;

/// Bytes of one answer: a million subscribers that are integers, or 300,000 that are names.
pub(crate) const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Longest sleep of the node while it has connections: deadlines are met at most this late.
pub(crate) const DEADLINE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Bytes of the read buffer, which all connections share.
pub(crate) const READ_BLOCK_BYTES: usize = 128 * 1024;

/// Reads from one connection in one turn; the rest waits for the next turn.
pub(crate) const READS_PER_TURN_MAX: usize = 8;

/// Nodes accepted in one turn.
pub(crate) const ACCEPTS_PER_TURN_MAX: usize = 16;
