//! Idempotency keys of all nodes, and the answers to their requests.
//!
//! A request puts its key in front of its events in one entry of the log. The first such entry
//! counts; all nodes pass over the events of another. So a request whose outcome is not known may
//! be sent again, to any node. A key is known for a day by the clock of the log, so that all nodes
//! forget it before the same entry. Must never let a key count twice within that time.

use axum::http::StatusCode;
use replication::Position;
use replication::shared::{FOR_EVER, Full, SharedRows};

use super::piece::{Digest, KeyPiece};
use super::tables::{ANSWER, CLAIM, REPEAT, row};
use crate::idempotency::Stored;
use crate::limits::IDEMPOTENCY_KEY_SECONDS;

/// Part of a request that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// What it publishes.
    pub(crate) content: Digest,
    /// Position of its first event.
    pub(crate) first: Position,
}

/// Takes a piece. Returns how many of the commands after it do not count.
pub(super) fn take(rows: &mut SharedRows, piece: KeyPiece, position: Position) -> usize {
    match piece {
        KeyPiece::Claim {
            key,
            part,
            content,
            commands,
        } => {
            let name = claim_name(key, part);
            if rows.get(CLAIM, &name).is_some() {
                let name = position.number().to_be_bytes();
                // Eight bytes have room.
                let _ = rows.put(REPEAT, &name, row(FOR_EVER, position, []));
                return passed(commands);
            }
            let until = rows.seconds() + IDEMPOTENCY_KEY_SECONDS;
            let first = position.number() + 1;
            let value = [&content.0[..], &first.to_le_bytes()].concat();
            let _ = rows.put(CLAIM, &name, row(until, position, value));
        }
        KeyPiece::Answer {
            key,
            request,
            status,
            body,
        } => {
            // The answer goes with the claim.
            if let Some(claim) = rows.get(CLAIM, &claim_name(key, 0)) {
                let until = claim.until;
                let value = [&request.0[..], &status.to_le_bytes(), body.as_bytes()].concat();
                // One that is too long is not kept: a repeat of the request is answered anew.
                if rows.put(ANSWER, &key.0, row(until, position, value)) == Err(Full) {
                    rows.remove(ANSWER, &key.0);
                }
            }
        }
    }
    0
}

/// Returns what [`take`] returned for a piece that was taken before.
pub(super) fn passed_over(rows: &SharedRows, piece: &KeyPiece, position: Position) -> usize {
    match piece {
        KeyPiece::Claim { commands, .. }
            if rows.get(REPEAT, &position.number().to_be_bytes()).is_some() =>
        {
            passed(*commands)
        }
        _ => 0,
    }
}

/// Returns the answer to a request with a key, if it is known.
pub(super) fn answer(rows: &SharedRows, key: &Digest) -> Option<Stored> {
    let row = rows.get(ANSWER, &key.0)?;
    let (request, rest) = row.value.split_first_chunk()?;
    let (status, body) = rest.split_first_chunk()?;
    Some(Stored {
        request: Digest(*request),
        status: StatusCode::from_u16(u16::from_le_bytes(*status)).ok()?,
        body: str::from_utf8(body).ok()?.to_owned().into(),
    })
}

/// Returns the part of a request that counts, if it is known.
pub(super) fn claim(rows: &SharedRows, key: Digest, part: u32) -> Option<Claim> {
    let row = rows.get(CLAIM, &claim_name(key, part))?;
    let (content, first) = row.value.split_first_chunk()?;
    Some(Claim {
        content: Digest(*content),
        first: Position::from_number(u64::from_le_bytes(first.try_into().ok()?)),
    })
}

fn claim_name(key: Digest, part: u32) -> Vec<u8> {
    [&key.0[..], &part.to_be_bytes()].concat()
}

fn passed(commands: u32) -> usize {
    usize::try_from(commands).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::tables::of_cluster;
    use super::*;
    use crate::tests::fake::SMALL;

    fn new() -> SharedRows {
        let mut rows = SharedRows::new(&of_cluster(&SMALL));
        rows.advance(1000);
        rows
    }

    fn claim_of(key: u8, part: u32) -> KeyPiece {
        KeyPiece::Claim {
            key: Digest([key; 32]),
            part,
            content: Digest([9; 32]),
            commands: 3,
        }
    }

    fn answer_of(key: u8, body: &str) -> KeyPiece {
        KeyPiece::Answer {
            key: Digest([key; 32]),
            request: Digest([1; 32]),
            status: 202,
            body: body.to_owned(),
        }
    }

    const fn at(number: u64) -> Position {
        Position::from_number(number)
    }

    #[test]
    fn the_events_of_a_key_count_once() {
        let mut rows = new();
        assert_eq!(take(&mut rows, claim_of(1, 0), at(10)), 0);
        assert_eq!(take(&mut rows, claim_of(1, 0), at(20)), 3);
        assert_eq!(take(&mut rows, claim_of(1, 1), at(30)), 0, "another part");
        assert_eq!(take(&mut rows, claim_of(2, 0), at(40)), 0, "another key");
        let found = claim(&rows, Digest([1; 32]), 0).unwrap();
        assert_eq!((found.first, found.content), (at(11), Digest([9; 32])));
        // A node that reads them again to fill its history passes over the same ones.
        for (position, passed) in [(10, 0), (20, 3), (30, 0), (40, 0)] {
            let again = passed_over(&rows, &claim_of(1, 0), at(position));
            assert_eq!(again, passed, "{position}");
        }
    }

    #[test]
    fn a_key_is_known_for_a_day_of_the_log() {
        let mut rows = new();
        let key = Digest([1; 32]);
        take(&mut rows, claim_of(1, 0), at(10));
        take(&mut rows, answer_of(1, "{}"), at(15));
        take(&mut rows, answer_of(2, "{}"), at(16));
        assert_eq!(
            answer(&rows, &Digest([2; 32])),
            None,
            "it was never claimed"
        );
        rows.advance(1000 + IDEMPOTENCY_KEY_SECONDS - 1);
        let found = answer(&rows, &key).unwrap();
        assert_eq!((found.status.as_u16(), &*found.body), (202, &b"{}"[..]));
        assert_eq!(take(&mut rows, claim_of(1, 0), at(20)), 3);
        rows.advance(1000 + IDEMPOTENCY_KEY_SECONDS);
        assert_eq!((claim(&rows, key, 0), answer(&rows, &key)), (None, None));
        assert_eq!(take(&mut rows, claim_of(1, 0), at(30)), 0);
        // The history may still have the events of all three.
        assert_eq!(passed_over(&rows, &claim_of(1, 0), at(20)), 3);
        assert_eq!(passed_over(&rows, &claim_of(1, 0), at(30)), 0);
    }

    #[test]
    fn keys_and_their_answers_are_bounded() {
        let mut rows = new();
        let many = 2 * SMALL.idempotency_keys_max as u8;
        for key in 0..many {
            let position = u64::from(key) * 10;
            take(&mut rows, claim_of(key, 0), at(position));
            take(&mut rows, answer_of(key, "{}"), at(position + 5));
        }
        assert_eq!(rows.iter(CLAIM).count(), SMALL.idempotency_keys_max);
        assert_eq!(rows.iter(ANSWER).count(), SMALL.idempotency_keys_max);
        let known = |key: u8| claim(&rows, Digest([key; 32]), 0).is_some();
        assert!(known(many - 1) && !known(0), "the oldest are forgotten");
        // Long answers make room for each other, and one that is too long is not kept.
        let mut rows = new();
        let long = "x".repeat(SMALL.answers_bytes_max / 2);
        for (position, key) in [(10, 1), (20, 2), (30, 3)] {
            take(&mut rows, claim_of(key, 0), at(position));
            take(&mut rows, answer_of(key, &long), at(position + 5));
        }
        assert_eq!(rows.iter(ANSWER).count(), 1);
        take(&mut rows, answer_of(3, &long.repeat(3)), at(50));
        assert_eq!(answer(&rows, &Digest([3; 32])), None);
    }
}
