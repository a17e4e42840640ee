//! Sending over TLS.
//!
//! What was sealed once is sent exactly as it was sealed, and before what is sealed later: the
//! numbers of records are part of the encryption.

use std::iter;

use reactor::{Driver, SlotKey};

use super::send::{count_sent, count_waits, send, shed};
use super::{CloseReason, ConnectionTable, OwedFrame, Phase, live};
use crate::frames::TurnFrames;
use crate::limits::FRAMES_PER_SEND;
use crate::stats::Metric;

impl<D: Driver> ConnectionTable<D> {
    /// Sends the records of the batch, behind earlier ones. What the socket does not take waits at
    /// the front of the backlog. Returns whether the connection goes on.
    pub(super) fn send_batch(&mut self, key: SlotKey) -> bool {
        match self.try_batch(key) {
            Some(taken) => self.queue_tail(key, taken),
            None => false,
        }
    }

    /// Makes one system call for the records of the batch, unless the socket is full. Returns the
    /// number of bytes that it took; `None` when the connection is broken and was closed.
    fn try_batch(&mut self, key: SlotKey) -> Option<usize> {
        let connection = live(&mut self.slots, key)?;
        let records = self.batch.records();
        if records.is_empty() || connection.blocked {
            return Some(0);
        }
        let taken = send(
            &mut self.driver,
            &self.stats,
            &connection.socket,
            &[records],
        );
        if taken.is_none() {
            self.close(key, CloseReason::Reset);
        }
        taken
    }

    /// Keeps the records of the batch from `taken` on, if there are any. Returns whether there was
    /// room; else the connection was closed.
    fn queue_tail(&mut self, key: SlotKey, taken: usize) -> bool {
        let bytes = self.batch.records().len() - taken;
        if bytes == 0 {
            return true;
        }
        let Some(begins) = self.block(key) else {
            return false;
        };
        let (now, bytes_max) = (self.clock.now, self.live.backlog_bytes);
        let (tail, groups) = self.batch.tail(taken);
        if !self
            .backlogs
            .push_sealed(key.index, now, tail, groups, bytes_max)
        {
            self.close(key, CloseReason::Slow);
            return false;
        }
        self.queued(key, bytes, begins);
        true
    }

    /// Seals bytes and sends them; see [`send`](Self::send).
    pub(super) fn send_sealed(&mut self, key: SlotKey, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(connection) = live(&mut self.slots, key) else {
                return;
            };
            if connection.blocked {
                return self.queue_bytes(key, rest);
            }
            let Some(tls) = self.tls.get_mut(key.index) else {
                return;
            };
            let Ok(sealed) = self.batch.seal(tls, iter::once((rest, false))) else {
                return self.close(key, CloseReason::Reset);
            };
            if !self.send_batch(key) {
                return;
            }
            rest = &rest[sealed.bytes..];
        }
    }

    /// Seals frames and sends them, in order and in as few system calls as possible; see
    /// [`send_frames`](Self::send_frames).
    pub(super) fn send_frames_sealed(
        &mut self,
        key: SlotKey,
        owed: &[OwedFrame],
        frames: &mut TurnFrames,
    ) {
        let (mut rest, mut offset) = (owed, 0);
        while let [_, ..] = rest {
            let Some(connection) = self.slots.get(key) else {
                return shed(rest, frames);
            };
            let Phase::Open(_) = connection.phase else {
                return shed(rest, frames);
            };
            if connection.blocked {
                return self.queue_frames(key, rest, offset, frames);
            }
            let Some(tls) = self.tls.get_mut(key.index) else {
                return shed(rest, frames);
            };
            let bytes = frames.bytes();
            let parts = rest.iter().enumerate().map(|(at, owed)| {
                let start = if at == 0 { offset } else { 0 };
                (&bytes[owed.range.clone()][start..], true)
            });
            let sealed = self.batch.seal(tls, parts);
            let Ok(sealed) = sealed else {
                shed(rest, frames);
                return self.close(key, CloseReason::Reset);
            };
            let Some(taken) = self.try_batch(key) else {
                return shed(rest, frames);
            };
            let written = self.batch.events_within(taken);
            for owed in &rest[..written] {
                count_sent(owed, frames);
            }
            if !self.queue_tail(key, taken) {
                return shed(&rest[written..], frames);
            }
            for owed in &rest[written..sealed.whole] {
                count_waits(owed, frames);
            }
            rest = &rest[sealed.whole..];
            offset = match sealed.whole {
                0 => offset + sealed.offset,
                _ => sealed.offset,
            };
        }
    }

    /// Sends the backlog of a TLS connection: first the records that wait, then plaintext, sealed
    /// now. See [`flush`](Self::flush).
    pub(super) fn flush_sealed(&mut self, key: SlotKey) -> Option<Phase> {
        loop {
            self.announce_gap(key);
            let connection = live(&mut self.slots, key).filter(|connection| connection.blocked)?;
            let backlog = self.backlogs.get_mut(key.index)?;
            let before = backlog.bytes();
            let taken = if backlog.is_sealed() {
                let mut slices = [&[][..]; FRAMES_PER_SEND];
                let count = backlog.front(&mut slices);
                let slices = &slices[..count];
                let taken = send(&mut self.driver, &self.stats, &connection.socket, slices);
                if let Some(taken @ 1..) = taken {
                    backlog.advance(taken, self.clock.now);
                }
                taken
            } else {
                let tls = self.tls.get_mut(key.index)?;
                let sealed = self.batch.seal(tls, backlog.plaintext());
                let records = [self.batch.records()];
                let taken = match sealed {
                    Ok(_) => send(&mut self.driver, &self.stats, &connection.socket, &records),
                    Err(_) => None,
                };
                if let (Ok(sealed), Some(taken)) = (sealed, taken) {
                    let (batch, now) = (&self.batch, self.clock.now);
                    self.backlogs
                        .replace_sealed(key.index, sealed.bytes, batch, taken, now);
                }
                taken
            };
            let Some(taken) = taken else {
                self.close(key, CloseReason::Reset);
                return None;
            };
            let after = self.backlogs.get(key.index)?.bytes();
            self.stats.add(Metric::BacklogBytes, after as u64);
            self.stats.take(Metric::BacklogBytes, before as u64);
            if taken == 0 {
                return None;
            }
            if after == 0 {
                return self.end_backlog(key);
            }
        }
    }
}
