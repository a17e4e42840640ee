//! Reading of sockets: heads, then events.

use std::borrow::Cow;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::{ClientThread, READ_BYTES, millis_since};
use crate::flood::behaviours::Behaviour;
use crate::flood::failure_kind::FailureKind;
use crate::flood::stream::{Heading, Progress, Stream, heading};
use client::decode::websocket;

impl ClientThread<'_> {
    pub(super) fn on_ready(&mut self, index: usize) {
        match &self.streams[index] {
            Stream::Closed => {}
            Stream::Connecting(_) => self.on_connected(index),
            Stream::Trickling(..) | Stream::Head(..) | Stream::Body(..) => {
                self.receive(index, READ_BYTES);
            }
        }
    }

    /// Reads up to `most` bytes from the socket.
    pub(super) fn receive(&mut self, index: usize, most: usize) {
        let (Stream::Trickling(socket, _) | Stream::Head(socket, _) | Stream::Body(socket, _)) =
            &self.streams[index]
        else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        match recv(socket, &mut buffer[..most], RecvFlags::empty()) {
            Ok((_, 0)) => self.on_end(index),
            Ok((count, _)) => {
                self.reading.counts.bytes += count as u64;
                self.on_received(index, &buffer[..count]);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => self.on_error(index, errno),
        }
        self.buffer = buffer;
    }

    pub(super) fn on_bytes(&mut self, index: usize, bytes: &[u8]) {
        match &mut self.streams[index] {
            Stream::Body(..) => self.on_body(index, bytes),
            Stream::Trickling(..) | Stream::Head(..) => self.on_head(index, bytes),
            Stream::Closed | Stream::Connecting(_) => {}
        }
    }

    fn on_body(&mut self, index: usize, bytes: &[u8]) {
        let Stream::Body(_, body) = &mut self.streams[index] else {
            return;
        };
        let progress = if self.config.recovery.is_none() {
            body.read(&mut self.reading, None, bytes)
        } else {
            let mut records = self.records.lock();
            let record = &mut records[index];
            record.heard_at = millis_since(self.begun);
            let progress = body.read(&mut self.reading, Some(record), bytes);
            if let Some(id) = record.last_id() {
                self.epochs.learn(id, bytes);
            }
            progress
        };
        if !self.reading.answer.is_empty() {
            let mut answer = std::mem::take(&mut self.reading.answer);
            self.send_answer(index, &answer);
            answer.clear();
            self.reading.answer = answer;
        }
        match progress {
            Ok(Progress::More) => {}
            Ok(Progress::Ended) => self.complete(index),
            Ok(Progress::Closed(code)) => {
                self.tally.close_code(code);
                self.complete(index);
            }
            Err(malformed) => self.on_malformed(index, malformed),
        }
    }

    fn on_head(&mut self, index: usize, bytes: &[u8]) {
        let (kept, sent) = match &mut self.streams[index] {
            Stream::Head(_, kept) => (std::mem::take(kept), true),
            _ => (Vec::new(), false),
        };
        let all = if kept.is_empty() {
            Cow::from(bytes)
        } else {
            [&kept, bytes].concat().into()
        };
        match self.heading(index, &all, false) {
            Ok(Heading::Partial) => self.keep_head(index, all.into_owned()),
            // A server that answers before the request is sent does not speak HTTP.
            Ok(Heading::Open(..)) if !sent => {
                self.on_malformed(index, client::decode::Malformed::StatusLine)
            }
            Ok(Heading::Open(body, used)) => {
                self.answered(index);
                self.failures_in_row = 0;
                self.reading.counts.heads += 1;
                let taken = std::mem::replace(&mut self.streams[index], Stream::Closed);
                let Stream::Head(socket, _) = taken else {
                    return;
                };
                self.streams[index] = Stream::Body(socket, body);
                self.on_reopened(index);
                self.begin_to_misbehave(index);
                if used < all.len() && self.behaviour(index) != Behaviour::StopsReading {
                    self.on_bytes(index, &all[used..]);
                }
            }
            Ok(Heading::Refused(status, line)) => {
                self.drop_unanswered(index, FailureKind::Status(status), &line);
            }
            Err(malformed) => self.on_malformed(index, malformed),
        }
    }

    /// Parses the bytes of a head; `ended` means that no more bytes will come.
    pub(super) fn heading(
        &self,
        index: usize,
        bytes: &[u8],
        ended: bool,
    ) -> Result<Heading, client::decode::Malformed> {
        let (transport, seed) = (self.reading.transport, self.config.request_options.seed);
        let key = || websocket::key(seed, self.ordinal(index));
        heading(bytes, transport, key, ended)
    }

    fn keep_head(&mut self, index: usize, bytes: Vec<u8>) {
        match std::mem::replace(&mut self.streams[index], Stream::Closed) {
            Stream::Head(socket, _) | Stream::Trickling(socket, _) => {
                self.streams[index] = Stream::Head(socket, bytes);
            }
            other => self.streams[index] = other,
        }
    }
}
