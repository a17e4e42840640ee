//! Reconnecting clients: what each remembers across its connections, and how it is checked.
//!
//! Owns the state of a client between two connections. Its thread writes it; the check of exact
//! delivery reads it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::order::{NumberOrder, Sequence};
use crate::published::EventSet;
use clap::Args;
use cli::units::duration;
use client::backoff;
use client::decode::count::ResetReason;
use client::decode::event_id::EventId;
use client::random::Random;
use client::received::{Arrival, Received};
use client::stamp::Stamp;
use serde::{Deserialize, Serialize};

/// Bytes for one reconnecting client, in addition to its stream.
const RECORD_BYTES_MAX: usize = 136;

const _: () = assert!(size_of::<Record>() <= RECORD_BYTES_MAX);

/// Longest wait before an attempt, unless `back_within` is longer.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Silence after which a stream of Encke is dead: two heartbeats of 20 s, each a tenth late, and a
/// margin.
pub const SILENCE: Duration = Duration::from_secs(50);

/// Options of reconnecting clients.
#[derive(Debug, Clone, Copy, Args)]
pub struct RecoveryOptions {
    /// Break each connection at a random time, this long after it was opened on average
    #[arg(long, value_name = "TIME", requires = "resume", value_parser = duration)]
    pub cut_every: Option<Duration>,
    /// Come back at a random time up to this; double it after each attempt that fails, up to 30 s
    #[arg(
        long, value_name = "TIME", default_value = "1s", requires = "resume",
        value_parser = duration
    )]
    pub back_within: Duration,
    /// Leave a stream that has said nothing for this long, and come back: two heartbeats of Encke
    /// and a margin
    #[arg(
        long, value_name = "TIME", default_value = "50s", requires = "resume",
        value_parser = duration
    )]
    pub silent_after: Duration,
    /// Seed of these times
    #[arg(long, value_name = "S", default_value_t = 1, requires = "resume")]
    pub seed: u64,
}

/// Counters of reconnecting clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Connections cut by clients.
    pub cuts: u64,
    /// Streams opened by clients that had had one before.
    pub returns: u64,
    /// Failed attempts to reconnect.
    pub attempts_failed: u64,
    /// Reconnects without a cursor, as the client had not seen an id yet.
    pub without_cursor: u64,
    /// Events that came again with the same id and were dropped.
    pub repeats: u64,
    /// Events that came although an earlier cursor had said that all events up to a higher id had
    /// come.
    pub late: u64,
}

/// Resets by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resets {
    /// The server began a new history.
    pub restart: u64,
    /// The cursor was older than the history.
    pub expired: u64,
    /// The server did not know the cursor.
    pub unknown: u64,
}

impl Resets {
    /// Counts a reset.
    pub(super) fn count(&mut self, reason: ResetReason) {
        *match reason {
            ResetReason::Restart => &mut self.restart,
            ResetReason::Expired => &mut self.expired,
            ResetReason::Unknown => &mut self.unknown,
        } += 1;
    }

    /// Returns the number of all resets.
    pub fn sum(&self) -> u64 {
        self.restart + self.expired + self.unknown
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.restart += other.restart;
        self.expired += other.expired;
        self.unknown += other.unknown;
    }
}

impl Recovery {
    pub(super) fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.returns += other.returns;
        self.attempts_failed += other.attempts_failed;
        self.without_cursor += other.without_cursor;
        self.repeats += other.repeats;
        self.late += other.late;
    }
}

/// State of one reconnecting client.
#[derive(Debug, Default)]
pub(super) struct Record {
    received: Received,
    /// Stamped events received, without repeats.
    pub(super) events: EventSet,
    numbers: NumberOrder,
    /// Due time of its latest scheduled action, in nanoseconds since the flood began. Actions with
    /// another time are outdated.
    pub(super) next_action: u64,
    /// Time at which its stream ended, in milliseconds since the flood began; 0 while it is open.
    pub(super) ended_at: u32,
    /// Time of the last byte of its stream, in milliseconds since the flood began.
    pub(super) heard_at: u32,
    /// Consecutive failed attempts.
    attempts: u8,
    /// How often it has moved to another node.
    pub(super) moves: u8,
    /// Whether it has had a stream.
    pub(super) was_open: bool,
    /// Whether the server said that events may be missing, so that exact delivery is not checked.
    pub(super) is_excused: bool,
}

impl Record {
    /// Records an event; returns whether it is new.
    pub(super) fn event(
        &mut self,
        id: Option<EventId>,
        stamp: Option<Stamp>,
        recovery: &mut Recovery,
        numbers: Option<&mut Sequence>,
    ) -> bool {
        match id.map(|id| self.received.event(id)) {
            Some(Arrival::Repeat) => {
                recovery.repeats += 1;
                return false;
            }
            Some(Arrival::Late) => recovery.late += 1,
            Some(Arrival::New) | None => {}
        }
        if let Some(stamp) = stamp {
            self.events.insert(stamp);
            if let Some(numbers) = numbers
                && stamp.number > 0
            {
                self.numbers.take(stamp, numbers);
            }
        }
        true
    }

    /// Records an id without an event.
    pub(super) fn cursor(&mut self, id: EventId) {
        self.received.cursor(id);
    }

    /// Records that the server said that events may be missing.
    pub(super) fn excuse(&mut self, reset: Option<ResetReason>) {
        self.is_excused = true;
        self.numbers = NumberOrder::default();
        if matches!(reset, Some(ResetReason::Restart | ResetReason::Unknown)) {
            self.received.forget();
        }
    }

    /// Records that a stream is open. Returns the milliseconds since the one before ended, if there
    /// was one.
    pub(super) fn opened(&mut self, now_millis: u32) -> Option<u32> {
        self.attempts = 0;
        self.heard_at = now_millis;
        self.received.reconnect();
        let ended_at = std::mem::take(&mut self.ended_at);
        std::mem::replace(&mut self.was_open, true).then(|| now_millis.saturating_sub(ended_at))
    }

    /// Returns the cursor for the next request.
    pub(super) fn last_id(&self) -> Option<EventId> {
        self.received.last()
    }

    /// Draws the wait before the next attempt.
    pub(super) fn next_wait(&mut self, options: &RecoveryOptions, random: &mut Random) -> Duration {
        let first = options.back_within.max(Duration::from_millis(1));
        let wait = backoff::draw(first, self.attempts.into(), WAIT_MAX.max(first), random);
        self.attempts = self.attempts.saturating_add(1);
        wait
    }
}

/// Draws the time until a client cuts a connection that it opens now.
pub(super) fn next_cut(mean: Duration, random: &mut Random) -> Duration {
    random.up_to(mean.saturating_mul(2))
}

/// Records of one thread's clients, by index.
#[derive(Debug, Default)]
pub(super) struct Records(Mutex<Vec<Record>>);

impl Records {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Texts of the epochs of ids. Clients keep only a hash of an epoch.
#[derive(Debug, Default)]
pub(super) struct Epochs(Vec<(u32, Vec<u8>)>);

impl Epochs {
    /// Stores the epoch text of `id`, which is in `bytes`, unless it is known. If the id was split
    /// between two reads, the next id will do.
    pub(super) fn learn(&mut self, id: EventId, bytes: &[u8]) {
        if self.0.iter().any(|(epoch, _)| *epoch == id.epoch) {
            return;
        }
        for at in memchr::memmem::find_iter(bytes, b"id") {
            let value = bytes[at + 2..].trim_ascii_start();
            let start = value.iter().position(|byte| !b"\": ".contains(byte));
            let value = &value[start.unwrap_or(value.len())..];
            let end = value.iter().position(|byte| b"\"\r\n,}".contains(byte));
            let Some(text) = end.and_then(|end| std::str::from_utf8(&value[..end]).ok()) else {
                continue;
            };
            if EventId::of(text).is_none_or(|found| found.epoch != id.epoch) {
                continue;
            }
            let ends = text.char_indices().filter(|(_, one)| !one.is_ascii_digit());
            for (at, one) in ends {
                let prefix = &text[..at + one.len_utf8()];
                let found = EventId::of(&format!("{prefix}1"));
                if found.is_some_and(|found| found.epoch == id.epoch) {
                    return self.0.push((id.epoch, prefix.as_bytes().to_vec()));
                }
            }
        }
    }

    /// Appends `id` as the server sent it. Returns whether its epoch is known.
    pub(super) fn write(&self, id: EventId, out: &mut Vec<u8>) -> bool {
        let Some((_, prefix)) = self.0.iter().find(|(epoch, _)| *epoch == id.epoch) else {
            return false;
        };
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(prefix);
        out.extend_from_slice(digits.format(id.position).as_bytes());
        if id.complete != id.position {
            out.push(b'-');
            out.extend_from_slice(digits.format(id.complete).as_bytes());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_is_the_id_as_the_server_sent_it() {
        let spelled = |stream: &str, id: &str| {
            let (id, mut epochs, mut out) = (EventId::of(id).unwrap(), Epochs::default(), vec![]);
            epochs.learn(id, stream.as_bytes());
            epochs
                .write(id, &mut out)
                .then(|| String::from_utf8(out).unwrap())
        };
        for id in ["tro8w0000z-17", "tro8w0000z-17-9", "1447632000:7"] {
            let stream = format!("data: id\n\nid: {id}\ndata: x\n\n");
            assert_eq!(spelled(&stream, id).as_deref(), Some(id));
            let line = format!("{{\"id\":\"{id}\",\"data\":1}}\n");
            assert_eq!(spelled(&line, id).as_deref(), Some(id));
        }
        assert_eq!(spelled("id: other-17\n", "k-17"), None);
        assert_eq!(spelled("id: k-1", "k-1"), None);
    }

    #[test]
    fn a_repeat_is_neither_an_event_nor_a_loss() {
        let (mut record, mut recovery) = (Record::default(), Recovery::default());
        let mut numbers = Sequence::default();
        let mut event = |record: &mut Record, id: &str, number| {
            let stamp = Stamp {
                due: 1_000 + number,
                number,
            };
            record.event(
                EventId::of(id),
                Some(stamp),
                &mut recovery,
                Some(&mut numbers),
            )
        };
        assert_eq!(record.opened(5), None);
        assert!(event(&mut record, "k-4", 1) && event(&mut record, "k-9", 2));
        record.ended_at = 100;
        assert_eq!(record.opened(250), Some(150));
        assert!(!event(&mut record, "k-9", 2) && event(&mut record, "k-12", 3));
        assert_eq!(record.events.count, 3);
        record.excuse(Some(ResetReason::Unknown));
        assert!(event(&mut record, "k-2", 70));
        assert_eq!((recovery.repeats, numbers.missing()), (1, 0));
        assert!(record.is_excused);
    }

    #[test]
    fn waits_are_spread_and_double_up_to_a_bound() {
        let options = RecoveryOptions {
            cut_every: None,
            back_within: Duration::from_secs(1),
            silent_after: SILENCE,
            seed: 1,
        };
        let (mut record, mut random) = (Record::default(), Random::seeded(1));
        for attempt in 0..40 {
            let wait = record.next_wait(&options, &mut random);
            assert!(wait < Duration::from_secs(1 << attempt.min(10)).min(WAIT_MAX));
        }
    }
}
