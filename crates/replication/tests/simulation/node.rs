//! Nodes: a writer, a reader, and their applied and stored state.

use std::time::Duration;

use bytes::Bytes;
use graph::Rows;
use replication::shared::{Overflow, Row, SharedRows, TableLimits};
use replication::{
    Checkpoint, Heartbeat, Incarnation, Membership, Position, Reader, Receipts, Writer,
    WriterOptions,
};

/// Maximum size of appends that wait in a node, in bytes: small, so that a short outage reaches it.
pub(crate) const WAITING_BYTES_MAX: usize = 4000;

/// Token of an append that does not come from a publisher: a `NodeGone`.
pub(crate) const NO_PUBLISHER: usize = usize::MAX;

/// Table of names that expire: small, so that now and then one must make room for another.
const NAMES: TableLimits = TableLimits {
    table: 1,
    rows: 6,
    bytes: 1 << 20,
    overflow: Overflow::ForgetFirst,
};

/// Time until a name expires, by the time of the log.
const KNOWN_SECONDS: u64 = 3;

/// Adds the numbers of commands to shared state, where a name counts if it is not known. Returns
/// the positions of those that count.
pub(crate) fn share(
    shared: &mut SharedRows,
    seconds: u64,
    numbers: &[(Position, u64)],
) -> Vec<Position> {
    let mut counted = Vec::new();
    shared.advance(seconds);
    for &(position, number) in numbers {
        let name = [(number % 13) as u8];
        if shared.get(NAMES.table, &name).is_none() {
            let row = Row {
                until: shared.seconds() + KNOWN_SECONDS,
                position,
                value: number.to_le_bytes().into(),
            };
            shared.put(NAMES.table, &name, row).unwrap();
            counted.push(position);
        }
    }
    counted
}

/// Returns the shared state at the beginning of the log.
pub(crate) fn no_shared() -> SharedRows {
    SharedRows::new(&[NAMES])
}

/// State on the disk of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stored {
    pub(crate) checkpoint: Vec<u8>,
    /// Number of commands applied up to the checkpoint.
    pub(crate) applied: usize,
    /// Shared state at the checkpoint.
    pub(crate) rows: Rows,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) shared: SharedRows,
    /// Positions of commands whose names were not known.
    pub(crate) counted: Vec<Position>,
    pub(crate) name: String,
    pub(crate) run: u32,
    /// Writer; `None` while the node is down.
    pub(crate) writer: Option<Writer<usize>>,
    pub(crate) reader: Reader,
    pub(crate) receipts: Receipts<Vec<(usize, usize)>>,
    pub(crate) membership: Membership,
    pub(crate) applied: Vec<(Position, u64)>,
    pub(crate) stored: Stored,
    pub(crate) stopped_until: Duration,
    /// Time until which a stalled server of the engine holds copies of all its entries.
    pub(crate) held_until: Duration,
    pub(crate) is_cut_off: bool,
    /// Next deadline of its writer.
    pub(crate) wakes: Option<Duration>,
    /// Incarnations whose entries it wrongly ignores.
    pub(crate) ignores: Vec<Incarnation>,
}

impl Node {
    pub(crate) fn new(index: usize) -> Self {
        Self {
            shared: no_shared(),
            counted: Vec::new(),
            name: format!("n{index}"),
            run: 0,
            writer: None,
            reader: Reader::default(),
            receipts: Receipts::default(),
            membership: Membership::default(),
            applied: Vec::new(),
            stored: Stored {
                checkpoint: Checkpoint::default().encode(),
                applied: 0,
                rows: Rows::new(),
            },
            stopped_until: Duration::ZERO,
            held_until: Duration::ZERO,
            is_cut_off: false,
            wakes: None,
            ignores: Vec::new(),
        }
    }

    /// Starts the node from its stored state.
    pub(crate) fn start(&mut self, now: Duration, incarnation: Incarnation) {
        let checkpoint = Bytes::from(self.stored.checkpoint.clone());
        self.reader = Reader::new(Checkpoint::decode(&checkpoint).unwrap());
        self.applied.truncate(self.stored.applied);
        let read = self.reader.checkpoint().read;
        self.counted.retain(|position| position.sequence() <= read);
        self.shared = SharedRows::load(&[NAMES], &self.stored.rows).unwrap();
        self.run += 1;
        self.receipts = Receipts::default();
        self.receipts.read(self.reader.checkpoint().read);
        self.membership = Membership::default();
        self.membership.sync(now, self.reader.table());
        let options = WriterOptions::new(&self.name, "1", 1 << 20).unwrap();
        let options = options.waiting_bytes_max(WAITING_BYTES_MAX);
        let read = self.reader.checkpoint().read;
        self.writer = Some(Writer::new(options, incarnation, read));
        self.wakes = None;
        self.is_cut_off = false;
        self.ignores.clear();
    }

    pub(crate) fn store(&mut self) {
        for (name, value) in self.shared.take_changes() {
            match value {
                Some(value) => drop(self.stored.rows.insert(name, value)),
                None => drop(self.stored.rows.remove(&name)),
            }
        }
        self.stored.checkpoint = self.reader.checkpoint().encode();
        self.stored.applied = self.applied.len();
    }

    pub(crate) fn heartbeat(&self) -> Option<Heartbeat> {
        Some(Heartbeat {
            incarnation: self.writer.as_ref()?.incarnation()?,
            name: self.name.as_str().into(),
            version: "1".into(),
            applied: self.reader.checkpoint().read,
            sessions: 1,
        })
    }

    /// Returns the number of sessions of a node for a command.
    pub(crate) fn sessions(name: &str, command: u64) -> u32 {
        let digit = u32::from(name.as_bytes()[1] - b'0');
        (command % 5) as u32 * (digit + 1)
    }
}
