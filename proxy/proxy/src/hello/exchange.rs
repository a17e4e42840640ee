//! Stage 2: parsing and answering requests. All requests of one read are answered by one send.

use std::mem;

use reactor::{Driver, Received, SlotKey};
use wire::head::{Body, Method, Version};
use wire::response::{self, Cors};
use wire::status::Status;

use super::answer::Answer;
use super::connection_table::{AfterAnswer, ConnectionTable, Phase};
use super::head_cache::{HeadCache, RequestSummary};
use super::limits::{BLOCK_BYTES, READS_PER_TURN, UNSENT_BYTES_MAX};
use super::metrics::Metric;

/// Parser, answer and buffers of a worker. Lives as long as the worker.
#[derive(Debug)]
pub(super) struct Exchange {
    answer: Answer,
    heads: HeadCache,
    block: Box<[u8]>,
    /// Answers collected for one send.
    out: Vec<u8>,
    /// Each answer is the last one of its connection.
    is_draining: bool,
}

/// Result of reading from a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadResult {
    /// Bytes or an end were read.
    pub(super) found: bool,
    /// The budget of the turn is spent, and there may be more bytes that no signal will announce.
    pub(super) more: bool,
}

/// Result of one receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockRead {
    /// Something was read, and there may be more that no signal will announce.
    More,
    /// Something was read: a signal will announce more.
    Last,
    /// Nothing was read.
    Nothing,
}

impl Exchange {
    /// Makes an exchange that gives the same answer to every request.
    pub(super) fn new(answer: Answer) -> Self {
        Self {
            answer,
            heads: HeadCache::default(),
            block: vec![0; BLOCK_BYTES].into_boxed_slice(),
            out: Vec::new(),
            is_draining: false,
        }
    }

    /// Sets the date of the answers that follow.
    pub(super) fn set_date(&mut self, unix_seconds: u64) {
        self.answer.set_date(unix_seconds);
    }

    /// Makes each answer from now on the last one of its connection.
    pub(super) const fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Reads requests and answers them. `may_have_ended` says that the peer may have ended its
    /// side, so that even a short read leaves something to receive.
    pub(super) fn read<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        may_have_ended: bool,
    ) -> ReadResult {
        let mut block = mem::take(&mut self.block);
        let first = self.read_block(table, key, &mut block, may_have_ended);
        let mut last = first;
        for _ in 1..READS_PER_TURN {
            if last != BlockRead::More {
                break;
            }
            last = self.read_block(table, key, &mut block, may_have_ended);
        }
        self.block = block;
        ReadResult {
            found: first != BlockRead::Nothing,
            more: last == BlockRead::More,
        }
    }

    fn read_block<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        block: &mut [u8],
        may_have_ended: bool,
    ) -> BlockRead {
        let Some(connection) = table.get(key) else {
            return BlockRead::Nothing;
        };
        let is_lingering = connection.phase == Phase::Lingering;
        // No more requests are read from a client that does not read its answers.
        if !is_lingering && table.has_unsent(key) {
            return BlockRead::Nothing;
        }
        match table.receive(key, block) {
            Received::Bytes(count) => {
                let may_have_more = count == block.len() || may_have_ended;
                if !is_lingering {
                    self.take_in(table, key, &block[..count]);
                }
                match may_have_more {
                    true => BlockRead::More,
                    false => BlockRead::Last,
                }
            }
            Received::Blocked => BlockRead::Nothing,
            Received::Ended | Received::Failed(_) => {
                table.close(key);
                BlockRead::Last
            }
        }
    }

    fn take_in<D: Driver>(&mut self, table: &mut ConnectionTable<D>, key: SlotKey, bytes: &[u8]) {
        match table.take_kept(key) {
            // The time limit of a head runs from its first byte, regardless of the number of reads.
            Some(mut kept) => {
                let seen = kept.len();
                kept.extend_from_slice(bytes);
                self.answer_requests(table, key, &kept, seen);
            }
            None => {
                let now = table.now();
                if let Some(connection) = table.get(key) {
                    connection.last_activity = now;
                }
                self.answer_requests(table, key, bytes, 0);
            }
        }
    }

    /// Answers the requests that were kept while earlier answers were unsent.
    pub(super) fn resume<D: Driver>(&mut self, table: &mut ConnectionTable<D>, key: SlotKey) {
        if let Some(kept) = table.take_kept(key) {
            self.answer_requests(table, key, &kept, 0);
        }
    }

    /// Answers each complete request in `input`, whose first `seen` bytes are known to contain
    /// none. Keeps the rest: an incomplete request, and requests that must wait for room for their
    /// answers.
    fn answer_requests<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        mut input: &[u8],
        mut seen: usize,
    ) {
        let mut out = mem::take(&mut self.out);
        while self.answer_some(table, key, &mut input, &mut seen, &mut out) {
            out.clear();
        }
        out.clear();
        self.out = out;
    }

    /// Answers as many requests as fit into one send. Returns whether more can be answered now.
    fn answer_some<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        input: &mut &[u8],
        seen: &mut usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let unix_seconds = table.clock.unix_seconds;
        let Some(connection) = table.get(key) else {
            return false;
        };
        let Phase::AwaitingRequest { body_left } = &mut connection.phase else {
            return false;
        };
        let mut after = AfterAnswer::KeepAlive;
        let mut is_whole = true;
        let (mut answered, mut rejected) = (0, 0);
        while is_whole && after == AfterAnswer::KeepAlive && out.len() < UNSENT_BYTES_MAX {
            let skipped = (*body_left).min(input.len() as u64);
            *body_left -= skipped;
            *input = &input[skipped as usize..];
            if input.is_empty() {
                break;
            }
            match self.heads.parse(input, *seen) {
                Ok(Some((request, _))) if request.method == Method::Connect => {
                    rejected += 1;
                    append_refusal(Status::NOT_IMPLEMENTED, NO_TUNNEL, unix_seconds, out);
                    after = AfterAnswer::Linger;
                }
                Ok(Some((request, bytes))) => {
                    *input = &input[bytes..];
                    answered += 1;
                    (after, *body_left) = self.append_answer(request, input, out);
                    *seen = 0;
                }
                Ok(None) => is_whole = false,
                Err(error) => {
                    rejected += 1;
                    append_refusal(error.status(), error.reason(), unix_seconds, out);
                    after = AfterAnswer::Linger;
                }
            }
        }
        table.counters.add(Metric::RequestsAnswered, answered);
        table.counters.add(Metric::RequestsRejected, rejected);
        table.send(key, out, after);
        let has_rest = after == AfterAnswer::KeepAlive && !input.is_empty();
        let is_blocked = table.has_unsent(key);
        if has_rest && (!is_whole || is_blocked) {
            table.keep(key, input.to_vec());
        }
        has_rest && is_whole && !is_blocked
    }

    /// Appends the answer to a request that is followed by `rest`. Returns what happens to the
    /// connection after it, and how many bytes of the body are still to come.
    fn append_answer(
        &self,
        request: RequestSummary,
        rest: &[u8],
        out: &mut Vec<u8>,
    ) -> (AfterAnswer, u64) {
        let is_chunked = request.body == Body::Chunked;
        let keep_alive = request.keep_alive && !is_chunked && !self.is_draining;
        // A client that gets its answer before it sends its body leaves the body out, and its next
        // request would be mistaken for that body.
        if request.expects_continue && keep_alive && request.body != Body::None {
            out.extend_from_slice(response::CONTINUE);
        }
        let answer = self
            .answer
            .bytes(request.method, request.version, keep_alive);
        out.extend_from_slice(answer);
        match request.body {
            Body::Sized(count) if keep_alive => (AfterAnswer::KeepAlive, count),
            _ if keep_alive => (AfterAnswer::KeepAlive, 0),
            Body::None | Body::Sized(0) if rest.is_empty() => (AfterAnswer::Close, 0),
            _ => (AfterAnswer::Linger, 0),
        }
    }
}

/// Answer to CONNECT. A 2xx answer would tell a proxy that a tunnel follows (RFC 9110, section
/// 9.3.6), while this server continues to read requests.
const NO_TUNNEL: &str = "CONNECT is not supported: this server opens no tunnels; use GET.";

/// Appends the error answer to a request, after which the connection ends.
fn append_refusal(status: Status, reason: &str, unix_seconds: u64, out: &mut Vec<u8>) {
    let date = response::http_date(unix_seconds);
    response::full(
        status,
        "text/plain; charset=utf-8",
        &[],
        reason.as_bytes(),
        false,
        false,
        Version::Http11,
        &date,
        Cors::default(),
        out,
    );
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;

    use simulated::SimDriver;
    use simulated::network::{Peer, connected_client, network};

    use super::*;
    use crate::hello::metrics::WorkerCounters;

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// Needs no worker, only a table with a connection.
    #[test]
    fn a_client_that_does_not_take_its_answers_is_received_from_no_further() {
        let network = network(usize::MAX);
        let driver = SimDriver(Rc::clone(&network));
        let mut table = ConnectionTable::new(driver, Arc::new(WorkerCounters::default()));
        let (client, socket) = connected_client(&network, Peer::with(5, usize::MAX));
        let key = table.insert(socket);
        table.watch(key).expect("the simulated poller has room");
        let mut exchange = Exchange::new(Answer::new(200, &[], b"hello").expect("a valid answer"));

        network.borrow_mut().say(client, &GET.repeat(3));
        assert!(exchange.read(&mut table, key, false).found);
        network.borrow_mut().say(client, GET);
        assert!(!exchange.read(&mut table, key, false).found);
        assert_eq!(network.borrow().peers[client].inbound.len(), GET.len());
        assert_eq!(network.borrow().peers[client].outbound.len(), 5);
        network.borrow_mut().make_room(client, usize::MAX);
        assert!(table.flush(key), "requests may go on");
        assert!(exchange.read(&mut table, key, false).found);
        assert_eq!(table.counters.get(Metric::RequestsAnswered), 4);
    }
}
