//! Named bounds, each with its reason.

use std::time::Duration;

/// Bytes of the largest message, and of all that one channel may have under way, in pieces or not: a hundred
/// thousand subscriptions in one call. A larger message passes by without being kept, and is counted.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Bytes of a packet that is taken however much of messages in pieces is under way: a piece has 64 KiB.
pub(crate) const PACKET_BYTES_ALWAYS: usize = 1 << 20;

/// Bytes of a message of the handshake: a name and what goes with it.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 1024;

/// Messages in pieces that may be under way on one channel: one for each process that sends a large one.
pub(crate) const SEQUENCES_MAX: usize = 1024;

/// How long a handshake may take: what Erlang itself allows (`net_setuptime`).
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(7);

/// Channels at a time. Erlang meshes are smaller; beyond it a caller is turned away.
pub(crate) const CONNECTIONS_MAX: usize = 512;

/// Bytes owed to a node beyond which no more deliveries are written for it, until some are sent. They wait
/// as names of sessions, eight bytes each.
pub(crate) const SEND_BUFFER_BYTES_MAX: usize = 1 << 20;

/// Sessions of one node that may wait for deliveries: a few events to a million. What is beyond is shed.
pub(crate) const QUEUED_RECIPIENTS_MAX: usize = 4 << 20;

/// Bytes of events for which sessions of one node wait. What is beyond is shed.
pub(crate) const QUEUED_BYTES_MAX: usize = 8 << 20;

/// Bytes owed to a node beyond which nothing more is read from it: answers are not dropped.
pub(crate) const UNSENT_ANSWERS_BYTES_MAX: usize = 4 << 20;

/// How long a node may take nothing of what it is owed.
pub(crate) const STALL_TIME: Duration = Duration::from_secs(60);

/// Calls that may wait for receipts. Each is a publish under way; beyond it a call is refused.
pub(crate) const CALLS_MAX: usize = 64 * 1024;

/// Bytes of who calls: a pid, and a tag that is an alias. They are kept until the call is answered, and go
/// into the answer. Who is longer is no caller.
pub(crate) const CALLER_BYTES_MAX: usize = 4096;

/// Subscriptions of one call: as changes they take a few times the bytes of the message.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 100_000;

/// Ids of one process, as of one session of any other kind.
pub(crate) use server::IDS_MAX;

/// Sessions looked at in one turn after their node has gone.
pub(crate) const SESSIONS_REAPED_PER_TURN: u32 = 8192;

/// Bytes of the id_terms of ids that are kept: a million of them. Beyond it an id comes back as a binary.
pub(crate) const ID_TERMS_BYTES_MAX: usize = 64 << 20;

/// Bytes of one answer: a million subscribers that are integers, or 300,000 that are names.
pub(crate) const ANSWER_BYTES_MAX: usize = 8 << 20;

/// How long the node may sleep while it has connections: deadlines are met that late at most.
pub(crate) const DEADLINE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Bytes received at a time, into a block that all connections share.
pub(crate) const READ_BLOCK_BYTES: usize = 128 * 1024;

/// Blocks received from one connection in one turn; the rest waits for the next.
pub(crate) const READS_PER_TURN_MAX: usize = 8;

/// Nodes accepted in one turn.
pub(crate) const ACCEPTS_PER_TURN_MAX: usize = 16;
