//! Named bounds, each with its reason.

use std::time::Duration;

/// Bytes of the largest message, and of all incomplete messages of one connection: enough for a
/// hundred thousand subscriptions in one call. A larger message is counted and skipped; if it is a
/// call, its caller gets an error.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Bytes of a packet that is always accepted, however many fragments are held. A fragment has 64
/// KiB.
pub(crate) const PACKET_BYTES_ALWAYS: usize = 1 << 20;

/// Bytes of one handshake message: a node name and a few numbers.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 1024;

/// Fragmented messages in progress on one connection: one for each process that sends a large
/// message.
pub(crate) const SEQUENCES_MAX: usize = 1024;

/// Time limit of a handshake, as in Erlang itself (`net_setuptime`).
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(7);

/// Connected and dialed nodes. Erlang clusters are smaller; further nodes are refused.
pub(crate) const CONNECTIONS_MAX: usize = 512;

/// Peers that have connected but not yet proved that they know the cookie, which takes two round
/// trips. For a further one the oldest is closed, so that silent peers cannot block others.
pub(crate) const UNPROVEN_MAX: usize = 64;

/// Nodes that are dialed at once because of logins. Each takes a thread.
pub(crate) const DIALS_MAX: usize = 32;

/// Dialing threads. A dial may be given up before its thread ends.
pub(crate) const DIAL_THREADS_MAX: usize = 64;

/// Bytes in a connection's send buffer above which deliveries are queued instead of written. A
/// queued delivery takes eight bytes for each recipient.
pub(crate) const SEND_BUFFER_BYTES_MAX: usize = 1 << 20;

/// Queued deliveries of one node: a few events for a million sessions. Further ones are shed.
pub(crate) const QUEUED_RECIPIENTS_MAX: usize = 4 << 20;

/// Bytes of queued events of one node. Further ones are shed.
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

/// Bytes kept of a packet that is too large: enough to answer the caller if it is a call.
pub(crate) const CALL_BEGINNING_BYTES: usize = 2 * CALLER_BYTES_MAX;

/// Bytes of a packet from which its beginning is checked for a list of more than
/// [`SUBSCRIPTIONS_MAX`] subscriptions, which is read piecewise. No such list has fewer bytes.
pub(crate) const PIECEWISE_PACKET_BYTES: usize = 256 * 1024;

/// Subscriptions of one call that are changed together. As changes they take several times the
/// bytes of the message. A longer list is changed in parts.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 100_000;

/// Bytes of the shortest subscription: a tuple of two ids of one byte each.
const SUBSCRIPTION_BYTES_MIN: usize = 4;

const _: () = assert!(PIECEWISE_PACKET_BYTES <= SUBSCRIPTIONS_MAX * SUBSCRIPTION_BYTES_MIN);
const _: () = assert!(PIECEWISE_PACKET_BYTES > CALL_BEGINNING_BYTES);

/// Changes of one part of a long list. The next part is read while the graph applies this one.
pub(crate) const LIST_PART_CHANGES: usize = 4096;

/// Long lists in progress, of all nodes and of one node. Together their parts take half of the
/// changes that may wait for the disk.
pub(crate) const LISTS_MAX: usize = 8;
pub(crate) const LISTS_PER_NODE_MAX: usize = 4;

/// Bytes of one element of a long list: ids have at most 128 bytes of text.
pub(crate) const LIST_ELEMENT_BYTES_MAX: usize = 16 * 1024;

/// Time without data after which a long list is given up.
pub(crate) const LIST_STALL_TIME: Duration = Duration::from_secs(60);

/// Changes of a call, and their bytes, in one entry of a cluster's log: they must fit into a
/// message of the engine.
pub(crate) const LOGGED_CHANGES_MAX: usize = 2048;
pub(crate) const LOGGED_BYTES_MAX: usize = 128 * 1024;

/// Ids of one process, as for sessions of clients.
pub(crate) use server::IDS_MAX;

/// Session slots that one turn searches for sessions of disconnected nodes.
pub(crate) const SESSIONS_REAPED_PER_TURN: u32 = 8192;

/// Login questions in progress. Each holds its ids, some kilobytes at most. Further logins are
/// decided as if the process had not answered.
pub(crate) const LOGIN_QUESTIONS_MAX: usize = 1024;

/// Sessions that one turn sends notices to, so that notices do not delay events.
pub(crate) const NOTICES_PER_TURN: usize = 1024;

/// Subscriptions that one turn checks for presence snapshots: half a millisecond.
pub(crate) const SNAPSHOT_KEYS_PER_TURN: usize = 8192;

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
