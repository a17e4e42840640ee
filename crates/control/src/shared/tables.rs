//! Tables of the shared state: what is in their rows, how long, and how many there may be.
//!
//! Owns the numbers of the tables and the form of their rows, which are on disk and in snapshots.

use auth::bans::{BAN_SECONDS_MAX, BANS_MAX, BanError};
use auth::policy::MAX_LIFETIME_SECONDS;
use auth::revocations::{REVOCATIONS_MAX, RevocationError};
use auth::tickets::{ELSEWHERE_SECONDS, RECONNECT_SECONDS, TICKETS_MAX, TicketError};
use graph::Id;
use replication::Position;
use replication::shared::{FOR_EVER, Full, Overflow, Row, SharedRows, TableLimits};
use serde::{Deserialize, Serialize};

use super::piece::{Digest, IdentityPiece};
use crate::error::IdentityError;
use crate::limits::{Limits, REPEATS_MAX};

/// Ids, and the time before which what was issued to them is refused.
const REVOKED_ID: u8 = 1;
/// Tokens that are refused, by their `jti`.
const REVOKED_TOKEN: u8 = 2;
/// Ids that are banned.
const BAN: u8 = 3;
/// Tickets by their hash: a [`TicketRow`].
const TICKET: u8 = 4;
/// Idempotency keys and parts of requests.
pub(super) const CLAIM: u8 = 5;
/// Answers to requests with idempotency keys.
pub(super) const ANSWER: u8 = 6;
/// Positions of pieces whose idempotency key was known.
pub(super) const REPEAT: u8 = 7;

/// Ids that hide.
const HIDDEN_ID: u8 = 8;

/// Epoch of the log whose positions the tables 4 to 7 have.
const LOG: u8 = 9;

/// Name of the row with the epoch.
const EPOCH: &[u8] = b"epoch";

/// Bytes of all names and values of a table that is bounded by its rows: more than these need.
const BYTES_MAX: usize = usize::MAX;

/// The tables that the nodes of a cluster share.
pub(super) fn of_cluster(of: &Limits) -> [TableLimits; 9] {
    let [ids, tokens, bans, hidden] = of_one(of);
    let keys = of.idempotency_keys_max;
    [
        ids,
        tokens,
        bans,
        hidden,
        limits(TICKET, TICKETS_MAX, BYTES_MAX, Overflow::Refuse),
        limits(CLAIM, keys, BYTES_MAX, Overflow::ForgetFirst),
        limits(ANSWER, keys, of.answers_bytes_max, Overflow::ForgetFirst),
        limits(REPEAT, REPEATS_MAX, BYTES_MAX, Overflow::ForgetFirst),
        limits(LOG, 1, BYTES_MAX, Overflow::Refuse),
    ]
}

/// The tables that a server alone keeps: what would let a client in again, or show an id that
/// hides, if it were forgotten.
pub(super) const fn of_one(of: &Limits) -> [TableLimits; 4] {
    [
        limits(REVOKED_ID, REVOCATIONS_MAX, BYTES_MAX, Overflow::Refuse),
        limits(REVOKED_TOKEN, REVOCATIONS_MAX, BYTES_MAX, Overflow::Refuse),
        limits(BAN, BANS_MAX, BYTES_MAX, Overflow::Refuse),
        limits(HIDDEN_ID, of.hidden_ids_max, BYTES_MAX, Overflow::Refuse),
    ]
}

const fn limits(table: u8, rows: usize, bytes: usize, overflow: Overflow) -> TableLimits {
    TableLimits {
        table,
        rows,
        bytes,
        overflow,
    }
}

/// Makes the rows those of the log with an epoch. A graph that was in another cluster before keeps
/// revocations, bans and hidden ids; tickets, keys and positions meant nothing here.
pub(super) fn follow(rows: &mut SharedRows, epoch: &str) {
    if rows.get(LOG, EPOCH).map(|row| &*row.value) == Some(epoch.as_bytes()) {
        return;
    }
    for table in [TICKET, CLAIM, ANSWER, REPEAT] {
        let names: Vec<_> = rows.iter(table).map(|(name, _)| name.to_vec()).collect();
        for name in names {
            rows.remove(table, &name);
        }
    }
    // One row has room.
    let _ = rows.put(
        LOG,
        EPOCH,
        row(FOR_EVER, Position::default(), epoch.as_bytes()),
    );
}

/// Makes a row.
pub(super) fn row(until: u64, position: Position, value: impl Into<Box<[u8]>>) -> Row {
    let value = value.into();
    Row {
        until,
        position,
        value,
    }
}

/// A ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TicketRow {
    ids: Vec<Id>,
    issued: u64,
    /// The node and the session that use it.
    holder: Option<(u64, u64)>,
}

/// Writes what a piece of a node says of identities.
pub(super) fn write(
    rows: &mut SharedRows,
    piece: &IdentityPiece,
    node: u64,
    position: Position,
) -> Result<(), IdentityError> {
    let now = rows.seconds();
    let row = |until, value: Vec<u8>| row(until, position, value);
    match piece {
        IdentityPiece::RevokeId { id, before, .. } => {
            let name = id.to_string();
            let held = rows.get(REVOKED_ID, name.as_bytes());
            let held = held.and_then(|row| before_of(&row.value));
            let before = held.map_or(*before, |held| held.max(*before));
            let row = row(now + MAX_LIFETIME_SECONDS, before.to_le_bytes().into());
            or_full(
                rows.put(REVOKED_ID, name.as_bytes(), row),
                RevocationError::Full,
            )
        }
        IdentityPiece::RevokeToken { jti, .. } => {
            let row = row(now + MAX_LIFETIME_SECONDS, Vec::new());
            or_full(
                rows.put(REVOKED_TOKEN, jti.as_bytes(), row),
                RevocationError::Full,
            )
        }
        IdentityPiece::Ban { id, until } => {
            let name = id.to_string();
            let held = rows.get(BAN, name.as_bytes()).map(|row| row.until);
            let until = (*until).min(now + BAN_SECONDS_MAX);
            // A ban that lasts longer stays as it is.
            let row = row(held.map_or(until, |held| held.max(until)), Vec::new());
            or_full(rows.put(BAN, name.as_bytes(), row), BanError::Full)
        }
        IdentityPiece::Close { .. } => Ok(()),
        IdentityPiece::Issue {
            ticket,
            ids,
            issued,
            until,
        } => {
            if rows.get(TICKET, &ticket.0).is_some() {
                return Ok(());
            }
            let ticket_row = TicketRow {
                ids: ids.clone(),
                issued: *issued,
                holder: None,
            };
            or_full(
                rows.put(TICKET, &ticket.0, row(*until, ticket_row.to_bytes())),
                TicketError::Full,
            )
        }
        IdentityPiece::Use {
            ticket,
            ids,
            issued,
            session,
        } => {
            let ticket_row = TicketRow {
                ids: ids.clone(),
                issued: *issued,
                holder: Some((node, *session)),
            };
            let row = row(now + ELSEWHERE_SECONDS, ticket_row.to_bytes());
            or_full(rows.put(TICKET, &ticket.0, row), TicketError::Full)
        }
        IdentityPiece::Release { ticket, session } => {
            let held = rows.get(TICKET, &ticket.0);
            let held = held.and_then(|row| TicketRow::read(&row.value));
            if let Some(held) = held.filter(|held| held.holder == Some((node, *session))) {
                let free = TicketRow {
                    holder: None,
                    ..held
                };
                let row = row(now + RECONNECT_SECONDS, free.to_bytes());
                or_full(rows.put(TICKET, &ticket.0, row), TicketError::Full)?;
            }
            Ok(())
        }
        IdentityPiece::Hide { id, hidden } => {
            let name = id.to_string();
            if !hidden {
                rows.remove(HIDDEN_ID, name.as_bytes());
                return Ok(());
            }
            let row = row(FOR_EVER, Vec::new());
            let put = rows.put(HIDDEN_ID, name.as_bytes(), row);
            put.map_err(|Full| {
                let count = rows.iter(HIDDEN_ID).count();
                IdentityError::HiddenIdsFull(format!(
                    "{count} ids hide, which is the limit; show others again first"
                ))
            })
        }
    }
}

/// Notes that a node is gone: the tickets of its sessions are good for a reconnect. Looks at all
/// tickets.
pub(super) fn node_gone(rows: &mut SharedRows, node: u64) {
    let end = rows.seconds() + RECONNECT_SECONDS;
    let of_node = |(name, row): (&[u8], &Row)| {
        let held = TicketRow::read(&row.value)?;
        held.holder.filter(|(by, _)| *by == node)?;
        let free = TicketRow {
            holder: None,
            ..held
        };
        let row = self::row(row.until.min(end), row.position, free.to_bytes());
        Some((name.to_vec(), row))
    };
    let freed: Vec<_> = rows.iter(TICKET).filter_map(of_node).collect();
    for (name, row) in freed {
        // It takes no more room than before, but for the size of a number.
        let _ = rows.put(TICKET, &name, row);
    }
}

/// Calls `each` with what the rows say of identities: with a piece that says so, and the node whose
/// piece it is.
pub(super) fn read(rows: &SharedRows, mut each: impl FnMut(u64, IdentityPiece)) {
    let id = |name: &[u8]| Id::parse(std::str::from_utf8(name).ok()?).ok();
    for (name, row) in rows.iter(REVOKED_ID) {
        if let (Some(id), Some(before)) = (id(name), before_of(&row.value)) {
            let at = before;
            each(0, IdentityPiece::RevokeId { id, before, at });
        }
    }
    for (name, _) in rows.iter(REVOKED_TOKEN) {
        let jti = String::from_utf8_lossy(name).into_owned();
        each(0, IdentityPiece::RevokeToken { jti, at: 0 });
    }
    for (name, row) in rows.iter(BAN) {
        if let Some(id) = id(name) {
            let until = row.until;
            each(0, IdentityPiece::Ban { id, until });
        }
    }
    for (name, _) in rows.iter(HIDDEN_ID) {
        if let Some(id) = id(name) {
            each(0, IdentityPiece::Hide { id, hidden: true });
        }
    }
    for (name, row) in rows.iter(TICKET) {
        let (Ok(hash), Some(held)) = (name.try_into(), TicketRow::read(&row.value)) else {
            continue;
        };
        let (ticket, ids, issued) = (Digest(hash), held.ids, held.issued);
        let (node, piece) = match held.holder {
            None => {
                let until = row.until;
                let issue = IdentityPiece::Issue {
                    ticket,
                    ids,
                    issued,
                    until,
                };
                (0, issue)
            }
            Some((node, session)) => {
                let used = IdentityPiece::Use {
                    ticket,
                    ids,
                    issued,
                    session,
                };
                (node, used)
            }
        };
        each(node, piece);
    }
}

/// Returns the error that there are too many, if a row has no room.
fn or_full(put: Result<(), Full>, full: impl Into<IdentityError>) -> Result<(), IdentityError> {
    put.map_err(|Full| full.into())
}

impl TicketRow {
    fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and strings are JSON")
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

fn before_of(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(value.try_into().ok()?))
}
