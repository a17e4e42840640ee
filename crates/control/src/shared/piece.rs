//! Pieces of shared state as bytes: JSON, as they are rare and small.
//!
//! Owns their form. A field may be added later if nodes that do not know it can do without.

use auth::tickets::Hash;
use aws_lc_rs::digest::Context;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use graph::Id;
use replication::{Command, shared};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A piece of shared state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SharedPiece {
    Identity(IdentityPiece),
    Key(KeyPiece),
    Presence(PresencePiece),
}

/// What nodes remember of identities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum IdentityPiece {
    /// Refuse what was issued to an id before a time.
    RevokeId {
        id: Id,
        before: u64,
        /// The time by the clock of the node that was asked.
        at: u64,
    },
    /// Refuse the token with this `jti`.
    RevokeToken { jti: String, at: u64 },
    /// Keep an id away until a time.
    Ban { id: Id, until: u64 },
    /// End the sessions of an id.
    Close { id: Id },
    /// Accept a ticket, first used until a time. Its hash cannot log in.
    Issue {
        ticket: Digest,
        ids: Vec<Id>,
        issued: u64,
        until: u64,
    },
    /// A session of the node that says so uses a ticket.
    Use {
        ticket: Digest,
        ids: Vec<Id>,
        issued: u64,
        session: u64,
    },
    /// A session of the node that says so used a ticket and has ended.
    Release { ticket: Digest, session: u64 },
    /// Hide an id, or show it again.
    Hide { id: Id, hidden: bool },
}

/// What nodes remember of idempotency keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum KeyPiece {
    /// The commands that follow are those of a request with a key. They do not count if the key
    /// is known.
    Claim {
        /// Token and key.
        key: Digest,
        /// Part of the request: 0, 1, 2 …
        part: u32,
        /// What the part publishes.
        content: Digest,
        /// Commands that follow.
        commands: u32,
    },
    /// The answer to a request with a key.
    Answer {
        key: Digest,
        /// What the request publishes.
        request: Digest,
        status: u16,
        body: String,
    },
}

/// What nodes tell each other of presence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum PresencePiece {
    /// These ids have come to the node that says so, and then those have left it.
    Edges { online: Vec<Id>, offline: Vec<Id> },
    /// Every node is to tell which ids it has: one has started.
    Ask,
    /// The node that says so has told the backend of the edges of these places of the log.
    Told { places: Vec<u64> },
}

/// SHA-256 of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest(pub(crate) Hash);

impl Digest {
    /// Ends a hash.
    pub(crate) fn of(hashing: Context) -> Self {
        let mut hash = Hash::default();
        hash.copy_from_slice(hashing.finish().as_ref());
        Self(hash)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let hash = bytes.and_then(|bytes| Hash::try_from(bytes).ok());
        hash.map(Self)
            .ok_or_else(|| D::Error::custom("not a digest"))
    }
}

impl SharedPiece {
    /// Reads a piece; `None` if it is not one, or of a kind that is not known here.
    pub(crate) fn read(kind: u8, bytes: &Bytes) -> Option<Self> {
        match kind {
            shared::IDEMPOTENCY_KEY => serde_json::from_slice(bytes).ok().map(Self::Key),
            shared::REVOCATION | shared::BAN | shared::TICKET | shared::HIDDEN_ID => {
                let piece: IdentityPiece = serde_json::from_slice(bytes).ok()?;
                (piece.kind() == kind).then_some(Self::Identity(piece))
            }
            shared::PRESENCE => serde_json::from_slice(bytes).ok().map(Self::Presence),
            _ => None,
        }
    }
}

impl IdentityPiece {
    const fn kind(&self) -> u8 {
        match self {
            Self::RevokeId { .. } | Self::RevokeToken { .. } => shared::REVOCATION,
            Self::Ban { .. } | Self::Close { .. } => shared::BAN,
            Self::Issue { .. } | Self::Use { .. } | Self::Release { .. } => shared::TICKET,
            Self::Hide { .. } => shared::HIDDEN_ID,
        }
    }

    /// Returns the command that carries it.
    pub(crate) fn command(&self) -> Command {
        command(self.kind(), self)
    }
}

impl KeyPiece {
    /// Returns the command that carries it.
    pub(crate) fn command(&self) -> Command {
        command(shared::IDEMPOTENCY_KEY, self)
    }
}

impl PresencePiece {
    /// Returns the command that carries it.
    pub(crate) fn command(&self) -> Command {
        command(shared::PRESENCE, self)
    }
}

fn command(kind: u8, piece: &impl Serialize) -> Command {
    let bytes = serde_json::to_vec(piece).expect("numbers and strings are JSON");
    Command::Shared {
        kind,
        bytes: bytes.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_comes_back_from_its_bytes_and_only_under_its_kind() {
        let id = || Id::parse("rj").unwrap();
        let ticket = Digest([7; 32]);
        let pieces = [
            IdentityPiece::RevokeId {
                id: id(),
                before: 5,
                at: 4,
            },
            IdentityPiece::RevokeToken {
                jti: "t".to_owned(),
                at: 4,
            },
            IdentityPiece::Ban { id: id(), until: 9 },
            IdentityPiece::Close { id: id() },
            IdentityPiece::Issue {
                ticket,
                ids: vec![id(), Id::from(7)],
                issued: 3,
                until: 5,
            },
            IdentityPiece::Use {
                ticket,
                ids: vec![id()],
                issued: 3,
                session: u64::MAX,
            },
            IdentityPiece::Release { ticket, session: 1 },
            IdentityPiece::Hide {
                id: id(),
                hidden: true,
            },
        ];
        for piece in pieces {
            let Command::Shared { kind, bytes } = piece.command() else {
                panic!("{piece:?}");
            };
            let read = SharedPiece::read(kind, &bytes);
            assert_eq!(read, Some(SharedPiece::Identity(piece)));
            for other in (0..=255).filter(|other| *other != kind) {
                assert_eq!(SharedPiece::read(other, &bytes), None, "{other}");
            }
            for length in 0..bytes.len() {
                assert_eq!(SharedPiece::read(kind, &bytes.slice(..length)), None);
            }
        }
    }

    #[test]
    fn the_largest_ticket_fits_into_a_piece() {
        let longest = "\u{1f600}".repeat(32);
        let ids = (0..auth::tickets::TICKET_IDS_MAX).map(|_| Id::parse(&longest).unwrap());
        let piece = IdentityPiece::Use {
            ticket: Digest([255; 32]),
            ids: ids.collect(),
            issued: u64::MAX,
            session: u64::MAX,
        };
        piece.command().check().unwrap();
    }
}
