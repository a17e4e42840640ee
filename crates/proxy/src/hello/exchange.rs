//! Bytes to requests, requests to answers. All that one read asks for is answered by one send.

use std::mem;

use reactor::{Driver, Received, Sent, SlotKey};
use wire::head::{Body, HeadError, Version};
use wire::response::{self, Cors};

use super::known::Asked;
use super::limits::{OWED_BYTES_MAX, READS_PER_TURN};
use super::stats::Metric;
use super::worker::{Phase, Worker};

/// How the answers so far go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The next request may come.
    Open,
    /// No other request comes, and all that came is understood: it may be closed at once.
    Last,
    /// What comes after the answer is not understood, or is a body: it must be let come.
    LastWithRest,
}

/// What one attempt to read came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// Something, and there may be more that no signal will announce.
    More,
    /// Something: a signal will tell of more.
    Last,
    /// Nothing.
    Nothing,
}

impl<D: Driver> Worker<D> {
    /// Reads and answers. `ended` says that the peer's end may be among it, so that a short read is
    /// not the last. Returns whether there was anything.
    pub(super) fn read(&mut self, key: SlotKey, ended: bool) -> bool {
        let mut block = mem::take(&mut self.block);
        let first = self.read_block(key, &mut block, ended);
        let mut last = first;
        for _ in 1..READS_PER_TURN {
            if last != Read::More {
                break;
            }
            last = self.read_block(key, &mut block, ended);
        }
        self.block = block;
        if last == Read::More {
            self.unread.push(key);
        }
        first != Read::Nothing
    }

    /// Reads one block.
    fn read_block(&mut self, key: SlotKey, block: &mut [u8], ended: bool) -> Read {
        let Some(connection) = self.connections.get_mut(key) else {
            return Read::Nothing;
        };
        let ending = match connection.phase {
            Phase::Closed => return Read::Nothing,
            Phase::Ending => true,
            Phase::Asking { .. } => false,
        };
        // Who does not take its answers is not asked for more questions.
        if !ending && self.owed.contains_key(&key.index) {
            return Read::Nothing;
        }
        self.stats.add(Metric::Receives, 1);
        match self.driver.recv(&connection.socket, block) {
            Received::Bytes(count) => {
                self.stats.add(Metric::BytesRead, count as u64);
                let more = count == block.len() || ended;
                if !ending {
                    // A head that comes byte by byte must be whole as soon as one that comes at once.
                    if !self.partial.contains_key(&key.index) {
                        connection.moved = self.now;
                    }
                    self.take_in(key, &block[..count]);
                }
                if more { Read::More } else { Read::Last }
            }
            Received::Blocked => Read::Nothing,
            Received::Ended | Received::Failed(_) => {
                self.close(key);
                Read::Last
            }
        }
    }

    fn take_in(&mut self, key: SlotKey, bytes: &[u8]) {
        match self.partial.remove(&key.index) {
            None => self.answer_heads(key, bytes, 0),
            Some(mut head) => {
                let seen = head.len();
                head.extend_from_slice(bytes);
                self.answer_heads(key, &head, seen);
            }
        }
    }

    /// Answers each whole request in `input`, of which the first `seen` bytes are known to hold none,
    /// and keeps the rest: what has not come whole, and what must wait until answers are taken.
    fn answer_heads(&mut self, key: SlotKey, mut input: &[u8], mut seen: usize) {
        let mut out = mem::take(&mut self.out);
        loop {
            let more = self.answer_some(key, &mut input, &mut seen, &mut out);
            out.clear();
            if !more {
                break;
            }
        }
        self.out = out;
    }

    /// Answers as many requests as one send may hold. Returns whether there may be more that can be
    /// answered now.
    fn answer_some(
        &mut self,
        key: SlotKey,
        input: &mut &[u8],
        seen: &mut usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(connection) = self.connection(key) else {
            return false;
        };
        let Phase::Asking { mut skip } = connection.phase else {
            return false;
        };
        let mut ending = Ending::Open;
        let mut whole = true;
        while whole && ending == Ending::Open && out.len() < OWED_BYTES_MAX {
            let skipped = skip.min(input.len() as u64);
            skip -= skipped;
            *input = &input[skipped as usize..];
            if input.is_empty() {
                break;
            }
            match self.known.understand(input, *seen) {
                Ok(Some((asked, bytes))) => {
                    *input = &input[bytes..];
                    (ending, skip) = self.answer_one(asked, input, out);
                    *seen = 0;
                }
                Ok(None) => whole = false,
                Err(error) => {
                    self.refuse(error, out);
                    ending = Ending::LastWithRest;
                }
            }
        }
        if let Some(connection) = self.connection(key) {
            connection.phase = Phase::Asking { skip };
        }
        self.send(key, out, ending);
        let rest = ending == Ending::Open && !input.is_empty();
        let blocked = self.owed.contains_key(&key.index);
        if rest && (!whole || blocked) && self.connection(key).is_some() {
            self.partial.insert(key.index, input.to_vec());
        }
        rest && whole && !blocked
    }

    /// Appends the answer to a request that `rest` follows. Says how to go on, and how many bytes of
    /// body are still to come.
    fn answer_one(&self, asked: Asked, rest: &[u8], out: &mut Vec<u8>) -> (Ending, u64) {
        self.stats.add(Metric::RequestsAnswered, 1);
        let chunked = asked.body == Body::Chunked;
        let keep_alive = asked.keep_alive && !chunked && !self.ending;
        // Clients that are answered before they send their body leave it out and send their next request,
        // which would be taken for that body.
        if asked.expects_continue && keep_alive && asked.body != Body::None {
            out.extend_from_slice(response::CONTINUE);
        }
        out.extend_from_slice(self.answer.bytes(asked.method, asked.version, keep_alive));
        match asked.body {
            Body::Sized(count) if keep_alive => (Ending::Open, count),
            _ if keep_alive => (Ending::Open, 0),
            Body::None | Body::Sized(0) if rest.is_empty() => (Ending::Last, 0),
            _ => (Ending::LastWithRest, 0),
        }
    }

    fn refuse(&self, error: HeadError, out: &mut Vec<u8>) {
        self.stats.add(Metric::RequestsRejected, 1);
        let date = response::http_date(self.driver.unix_seconds());
        response::full(
            error.status(),
            "text/plain; charset=utf-8",
            &[],
            error.reason().as_bytes(),
            false,
            false,
            Version::Http11,
            &date,
            Cors::default(),
            out,
        );
    }

    fn send(&mut self, key: SlotKey, out: &[u8], ending: Ending) {
        if out.is_empty() {
            return;
        }
        let now = self.now;
        let Some(connection) = self.connection(key) else {
            return;
        };
        connection.last = ending != Ending::Open;
        connection.moved = now;
        let socket = &self.connections.get_mut(key).expect("found above").socket;
        self.stats.add(Metric::Sends, 1);
        let sent = match ending {
            Ending::Open => self.driver.send(socket, &[out]),
            Ending::Last | Ending::LastWithRest => self.driver.send_and_shutdown(socket, &[out]),
        };
        let sent = match sent {
            Sent::Bytes(count) => count,
            Sent::Blocked => 0,
            Sent::Failed(_) => return self.close(key),
        };
        self.stats.add(Metric::BytesWritten, sent as u64);
        if sent < out.len() {
            self.owed.insert(key.index, out[sent..].to_vec());
            return self.watch_writable(key);
        }
        if ending != Ending::Open {
            self.stats.add(Metric::Shutdowns, 1);
        }
        match ending {
            Ending::Open => {}
            Ending::Last => self.close(key),
            Ending::LastWithRest => self.await_end(key),
        }
    }

    /// A full socket has room again.
    pub(super) fn send_owed(&mut self, key: SlotKey) {
        let Some(mut owed) = self.owed.remove(&key.index) else {
            return;
        };
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        loop {
            self.stats.add(Metric::Sends, 1);
            match self.driver.send(&connection.socket, &[&owed]) {
                Sent::Bytes(count) => {
                    self.stats.add(Metric::BytesWritten, count as u64);
                    connection.moved = self.now;
                    owed.drain(..count);
                    if owed.is_empty() {
                        break;
                    }
                }
                Sent::Blocked => {
                    self.owed.insert(key.index, owed);
                    return;
                }
                Sent::Failed(_) => return self.close(key),
            }
        }
        if connection.last {
            return self.end_sending(key);
        }
        // Requests that came meanwhile were not read, and those kept were not answered.
        if let Some(kept) = self.partial.remove(&key.index) {
            self.answer_heads(key, &kept, 0);
        }
        self.read(key, true);
    }

    fn end_sending(&mut self, key: SlotKey) {
        if let Some(connection) = self.connections.get_mut(key) {
            self.stats.add(Metric::Shutdowns, 1);
            self.driver.end(&connection.socket);
            self.await_end(key);
        }
    }

    /// All is sent, and this side has ended.
    fn await_end(&mut self, key: SlotKey) {
        let now = self.now;
        if let Some(connection) = self.connection(key) {
            connection.phase = Phase::Ending;
            connection.moved = now;
            self.linger(key);
        }
    }
}
