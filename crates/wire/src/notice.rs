//! Notices: what the server tells a client about its stream.
//!
//! Owns their names and data. A notice has neither an id nor a subject, so a client can tell it
//! from a published event of the same type. Must never be written to the wire of 2008, whose
//! clients take every byte for payload.

use std::io::Write as _;

use crate::event::{Subject, push_cursor};
use crate::json;
use crate::object::push_subject;

/// Most bytes of a client's cursor that a reset repeats: more than any cursor has. A client may
/// send a text of any length in its place.
pub const FROM_BYTES_MAX: usize = 96;

/// Position up to which a client has received everything that concerns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position<'a> {
    /// Name of the run of the server.
    pub epoch: &'a str,
    /// Sequence number within that run.
    pub position: u64,
}

/// What the server tells a client about its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice<'a> {
    /// The stream ends, because the identity behind it has ended: the client needs a new one.
    Expired(Expiry),
    /// Events may be missing before what follows: the client must load its state anew.
    Reset {
        /// Why.
        reason: ResetReason,
        /// The cursor that the client gave, as it gave it, up to [`FROM_BYTES_MAX`].
        from: &'a str,
    },
    /// Events were left out here, because the client reads slowly.
    Gap {
        /// How many.
        lost: u64,
    },
    /// A piece of a snapshot: of the ids that the session's ids follow, these are online.
    Presence {
        /// The ids.
        online: &'a [Subject<'a>],
        /// Whether a snapshot begins with it, which replaces what the client knew.
        first: bool,
        /// Whether another piece follows.
        more: bool,
    },
    /// An id that one of the session's ids follows is online.
    Online {
        /// The id.
        id: Subject<'a>,
    },
    /// An id that one of the session's ids follows is offline.
    Offline {
        /// The id.
        id: Subject<'a>,
    },
    /// The session follows these ids too, as a message of the client has asked.
    Subscribed {
        /// The ids that the message named.
        ids: &'a [Subject<'a>],
    },
    /// The session no longer follows these ids, as a message of the client has asked.
    Unsubscribed {
        /// The ids that the message named.
        ids: &'a [Subject<'a>],
    },
    /// The session lives as long as the token that a message of the client has brought.
    Renewed {
        /// When it ends, in seconds since 1970.
        expires: Option<u64>,
    },
    /// The event that a message of the client has brought is published.
    Published {
        /// Position of the event.
        position: Position<'a>,
        /// What the client calls the message, if it does.
        reference: Option<&'a str>,
    },
    /// A message of the client was not obeyed; the session goes on as before.
    Refused {
        /// Why.
        reason: &'a str,
        /// What the client calls the message, if it does.
        reference: Option<&'a str>,
    },
}

/// Reason why the identity behind a stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// Its time is over.
    Expired,
    /// The operator has revoked it.
    Revoked,
}

/// Reason why a client's cursor does not tell what it missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResetReason {
    /// The server has restarted since, without its history.
    Restart,
    /// The history no longer goes back as far.
    Expired,
    /// The cursor is not one of this server's.
    Unknown,
}

impl Notice<'_> {
    /// Returns the name of the notice: the type of its event.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Expired(_) => "expired",
            Self::Reset { .. } => "reset",
            Self::Gap { .. } => "gap",
            Self::Presence { .. } => "presence",
            Self::Online { .. } => "online",
            Self::Offline { .. } => "offline",
            Self::Subscribed { .. } => "subscribed",
            Self::Unsubscribed { .. } => "unsubscribed",
            Self::Renewed { .. } => "renewed",
            Self::Published { .. } => "published",
            Self::Refused { .. } => "error",
        }
    }

    /// Appends the notice as a JSON object with `type` and `data`.
    pub fn push_object(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(self.name().as_bytes());
        out.extend_from_slice(b"\",\"data\":");
        self.push_data(out);
        out.push(b'}');
    }

    /// Appends the data of the notice, a JSON object on one line.
    pub fn push_data(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Expired(reason) => {
                write!(out, "{{\"reason\":\"{}\"}}", reason.text()).expect(TAKES_ALL);
            }
            Self::Reset { reason, from } => {
                write!(out, "{{\"reason\":\"{}\",\"from\":", reason.text()).expect(TAKES_ALL);
                let end = from.floor_char_boundary(FROM_BYTES_MAX);
                json::push_string(&from.as_bytes()[..end], out);
                out.push(b'}');
            }
            Self::Gap { lost } => write!(out, "{{\"lost\":{lost}}}").expect(TAKES_ALL),
            Self::Presence {
                online,
                first,
                more,
            } => {
                out.extend_from_slice(b"{\"online\":");
                push_ids(online, out);
                write!(out, ",\"first\":{first},\"more\":{more}}}").expect(TAKES_ALL);
            }
            Self::Online { id } | Self::Offline { id } => {
                out.extend_from_slice(b"{\"id\":");
                push_subject(&id, out);
                out.push(b'}');
            }
            Self::Subscribed { ids } | Self::Unsubscribed { ids } => {
                out.extend_from_slice(b"{\"ids\":");
                push_ids(ids, out);
                out.push(b'}');
            }
            Self::Renewed { expires: None } => out.extend_from_slice(b"{}"),
            Self::Renewed {
                expires: Some(time),
            } => write!(out, "{{\"expires\":{time}}}").expect(TAKES_ALL),
            Self::Published {
                position: Position { epoch, position },
                reference,
            } => {
                out.extend_from_slice(b"{\"id\":\"");
                push_cursor(epoch, position, out);
                out.push(b'"');
                push_reference(reference, out);
            }
            Self::Refused { reason, reference } => {
                out.extend_from_slice(b"{\"reason\":");
                json::push_string(reason.as_bytes(), out);
                push_reference(reference, out);
            }
        }
    }
}

/// Appends ids as an array.
fn push_ids(ids: &[Subject<'_>], out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, id) in ids.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        push_subject(id, out);
    }
    out.push(b']');
}

/// Appends what a client calls its message, and the end of the object.
fn push_reference(reference: Option<&str>, out: &mut Vec<u8>) {
    if let Some(reference) = reference {
        out.extend_from_slice(b",\"ref\":");
        json::push_string(reference.as_bytes(), out);
    }
    out.push(b'}');
}

const TAKES_ALL: &str = "a Vec takes every byte";

impl Expiry {
    /// Returns the word that the stream carries.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl ResetReason {
    /// Returns the word that the stream carries.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }
}
