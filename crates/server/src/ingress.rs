//! Stage 2: bytes to requests.
//!
//! All connections of a worker are read into one block. Only the beginning of a head that has not
//! arrived whole is kept for its connection.

use std::collections::HashMap;
use std::mem;

use reactor::SlotKey;
use reactor::{Driver, Received};
use wire::head;

use crate::connection::{CloseReason, Phase};
use crate::limits::{BLOCK_BYTES, READS_PER_TURN, REQUESTS_PER_TURN};
use crate::stats::Metric;
use crate::worker::Worker;

/// The reading end of a worker.
#[derive(Debug)]
pub(crate) struct Ingress {
    block: Box<[u8]>,
    /// Heads that have begun to arrive, by slot.
    partial: HashMap<u32, Vec<u8>>,
    /// Connections with more to read, or more requests to answer, than one turn allows, by slot: no
    /// edge will announce them again. With the generation, and whether their end is among it.
    unread: HashMap<u32, (u32, bool)>,
}

impl Default for Ingress {
    fn default() -> Self {
        Self {
            block: vec![0; BLOCK_BYTES].into_boxed_slice(),
            partial: HashMap::new(),
            unread: HashMap::new(),
        }
    }
}

impl Ingress {
    pub(crate) fn is_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// The reads and requests that this turn is to go on with.
    pub(crate) fn take_unread(&mut self) -> HashMap<u32, (u32, bool)> {
        mem::take(&mut self.unread)
    }

    fn postpone(&mut self, key: SlotKey, ended: bool) {
        let entry = self
            .unread
            .entry(key.index)
            .or_insert((key.generation, false));
        *entry = (key.generation, entry.1 | ended);
    }

    fn keep(&mut self, slot: u32, input: &[u8]) {
        self.partial.insert(slot, input.to_vec());
    }

    /// Forgets what was kept for a connection that ended.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.partial.remove(&slot);
        if self.partial.is_empty() && self.partial.capacity() > 64 {
            self.partial = HashMap::new();
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Goes on where the last turn's budget ended.
    pub(crate) fn read_on(&mut self, unread: HashMap<u32, (u32, bool)>) {
        for (index, (generation, ended)) in unread {
            let key = SlotKey { index, generation };
            if self.connection(key).is_some() {
                self.read_kept(key, ended);
            }
        }
    }

    /// Reads what a connection has sent. `ended` says that its end is among it, so that a short read
    /// is not the last.
    pub(crate) fn on_readable(&mut self, key: SlotKey, ended: bool) {
        let mut block = mem::take(&mut self.ingress.block);
        let more = (0..READS_PER_TURN).all(|_| self.read_block(key, &mut block, ended));
        self.ingress.block = block;
        if more {
            self.ingress.postpone(key, ended);
        }
    }

    /// Reads one block. Returns whether there may be more that no edge will announce.
    fn read_block(&mut self, key: SlotKey, block: &mut [u8], ended: bool) -> bool {
        let Some(connection) = self.connections.get_mut(key) else {
            return false;
        };
        // What a client sends after a request that is being worked on, or whose answer it does not
        // take, stays in the kernel.
        match connection.phase {
            Phase::Head { .. } if connection.blocked => return false,
            // Its requests so far have used up the turn.
            Phase::Head { .. } if self.ingress.unread.contains_key(&key.index) => return false,
            Phase::Relayed | Phase::Closed => return false,
            _ => {}
        }
        self.stats.add(Metric::Receives, 1);
        match self.driver.recv(&connection.socket, block) {
            Received::Bytes(count) => {
                self.stats.add(Metric::BytesRead, count as u64);
                self.ingest(key, &block[..count]);
                return count == block.len() || ended;
            }
            Received::Blocked => {}
            Received::Ended => self.on_ended(key),
            Received::Failed(_) => self.close(key, CloseReason::Reset),
        }
        false
    }

    fn ingest(&mut self, key: SlotKey, bytes: &[u8]) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        match connection.phase {
            // A stream is never followed by another answer: what a client says during it is lost
            // on us. One that says a lot does not speak this protocol.
            Phase::Open(_) if bytes.len() == BLOCK_BYTES => self.close(key, CloseReason::Rejected),
            Phase::Open(_) | Phase::Ending { .. } | Phase::Relayed | Phase::Closed => {}
            Phase::Head { partial: false } => self.read_heads(key, bytes, 0),
            Phase::Head { partial: true } => {
                let mut head = self.ingress.partial.remove(&key.index).unwrap_or_default();
                let seen = head.len();
                head.extend_from_slice(bytes);
                self.read_heads(key, &head, seen);
            }
        }
    }

    /// Acts on each whole head in `input`, of which the first `seen` bytes are known to hold none,
    /// and keeps the rest: what has not arrived whole, and what must wait until the answers so far
    /// are taken.
    fn read_heads(&mut self, key: SlotKey, mut input: &[u8], mut seen: usize) {
        let mut budget = REQUESTS_PER_TURN;
        while let Some(connection) = self.connection(key) {
            let Phase::Head { .. } = connection.phase else {
                return;
            };
            connection.phase = Phase::Head {
                partial: !input.is_empty(),
            };
            if input.is_empty() {
                return;
            }
            if connection.blocked {
                return self.ingress.keep(key.index, input);
            }
            if budget == 0 {
                self.ingress.keep(key.index, input);
                return self.ingress.postpone(key, true);
            }
            budget -= 1;
            match head::parse_from(input, seen) {
                Ok(Some(request)) => {
                    let consumed = request.consumed;
                    self.on_request(key, &request);
                    input = &input[consumed..];
                    seen = 0;
                }
                Ok(None) => return self.ingress.keep(key.index, input),
                Err(error) => return self.reject_head(key, error),
            }
        }
    }

    /// Goes on with requests that had to wait: until earlier answers were taken, or for this turn.
    pub(crate) fn read_kept(&mut self, key: SlotKey, ended: bool) {
        if let Some(kept) = self.ingress.partial.remove(&key.index) {
            self.read_heads(key, &kept, 0);
        }
        self.on_readable(key, ended);
    }

    fn on_ended(&mut self, key: SlotKey) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        let reason = match connection.phase {
            // The last answer is still to be taken; the peer has only ended its own side.
            Phase::Ending { .. } if connection.blocked => return,
            Phase::Ending { reason } => reason,
            _ => CloseReason::Peer,
        };
        self.close(key, reason);
    }
}
