//! Control messages, which say what to do and to which process ("Distribution Protocol", protocol
//! between connected nodes).

use crate::refusal::Refusal;
use crate::term::{Atom, Pid, Raw, Term, write};

const LINK: i64 = 1;
const SEND: i64 = 2;
const EXIT: i64 = 3;
const UNLINK: i64 = 4;
const REG_SEND: i64 = 6;
const GROUP_LEADER: i64 = 7;
const EXIT2: i64 = 8;
const SEND_TT: i64 = 12;
const EXIT_TT: i64 = 13;
const REG_SEND_TT: i64 = 16;
const EXIT2_TT: i64 = 18;
const MONITOR_P: i64 = 19;
const DEMONITOR_P: i64 = 20;
const MONITOR_P_EXIT: i64 = 21;
const SEND_SENDER: i64 = 22;
const SEND_SENDER_TT: i64 = 23;
const PAYLOAD_EXIT: i64 = 24;
const PAYLOAD_EXIT2_TT: i64 = 27;
const PAYLOAD_MONITOR_P_EXIT: i64 = 28;
const ALIAS_SEND: i64 = 33;
const ALIAS_SEND_TT: i64 = 34;
const UNLINK_ID: i64 = 35;
const UNLINK_ID_ACK: i64 = 36;

/// A received control message.
#[derive(Debug, Clone, Copy)]
pub enum Control<'a> {
    /// The payload is for a process.
    Send {
        /// The recipient.
        to: Pid<'a>,
    },
    /// The payload is for a registered process.
    SendNamed {
        /// The name of the recipient.
        to: Atom<'a>,
    },
    /// A process links to another.
    Link {
        /// The process that links.
        from: Pid<'a>,
        /// The other process.
        to: Pid<'a>,
    },
    /// A process removes a link, which must be acknowledged.
    Unlink {
        /// Identifies the removal.
        id: Raw<'a>,
        /// The process that unlinks.
        from: Pid<'a>,
        /// The other process.
        to: Pid<'a>,
    },
    /// A process monitors another.
    Monitor {
        /// The process that monitors.
        from: Pid<'a>,
        /// The monitored process: a pid or a registered name.
        of: Raw<'a>,
        /// Identifies the monitor.
        reference: Raw<'a>,
    },
    /// A monitored process has ended or does not exist.
    Down {
        /// Identifies the monitor.
        reference: Raw<'a>,
    },
    /// Ignored: exits of linked processes, group leaders, acknowledgements, removed monitors, and
    /// messages to aliases, which this node never creates.
    Other,
}

impl<'a> Control<'a> {
    /// Reads a control message. Returns whether a payload follows.
    ///
    /// # Errors
    ///
    /// [`Refusal::Message`] when it is malformed.
    pub fn read(term: Raw<'a>) -> Result<(Self, bool), Refusal> {
        let Term::Tuple(mut parts) = term.view() else {
            return Err(Refusal::Message);
        };
        let mut next = || parts.next().ok_or(Refusal::Message);
        let Term::Integer(operation) = next()?.view() else {
            return Err(Refusal::Message);
        };
        let pid = |term: Raw<'a>| term.pid().ok_or(Refusal::Message);
        let control = match operation {
            SEND | SEND_TT | SEND_SENDER | SEND_SENDER_TT => {
                next()?;
                Self::Send { to: pid(next()?)? }
            }
            REG_SEND | REG_SEND_TT => {
                pid(next()?)?;
                next()?;
                let to = next()?.atom().ok_or(Refusal::Message)?;
                Self::SendNamed { to }
            }
            LINK => Self::Link {
                from: pid(next()?)?,
                to: pid(next()?)?,
            },
            UNLINK_ID => Self::Unlink {
                id: next()?,
                from: pid(next()?)?,
                to: pid(next()?)?,
            },
            MONITOR_P => Self::Monitor {
                from: pid(next()?)?,
                of: next()?,
                reference: next()?,
            },
            MONITOR_P_EXIT | PAYLOAD_MONITOR_P_EXIT => {
                next()?;
                next()?;
                Self::Down { reference: next()? }
            }
            EXIT
            | EXIT_TT
            | EXIT2
            | EXIT2_TT
            | PAYLOAD_EXIT..=PAYLOAD_EXIT2_TT
            | UNLINK
            | GROUP_LEADER
            | DEMONITOR_P
            | ALIAS_SEND
            | ALIAS_SEND_TT
            | UNLINK_ID_ACK => Self::Other,
            _ => return Err(Refusal::Message),
        };
        Ok((control, has_payload(operation)))
    }
}

const fn has_payload(operation: i64) -> bool {
    matches!(
        operation,
        SEND | SEND_TT | REG_SEND | REG_SEND_TT | SEND_SENDER | SEND_SENDER_TT | PAYLOAD_EXIT
            ..=PAYLOAD_MONITOR_P_EXIT | ALIAS_SEND | ALIAS_SEND_TT
    )
}

/// Writes the head of a control message that has `parts` elements besides the operation.
fn head(out: &mut Vec<u8>, operation: i64, parts: usize) {
    write::tuple(out, parts + 1);
    write::integer(out, operation);
}

/// Writes a message to a process. The payload follows.
pub(crate) fn send(out: &mut Vec<u8>, to: impl FnOnce(&mut Vec<u8>)) {
    head(out, SEND, 2);
    write::atom(out, "");
    to(out);
}

/// Writes a message to a registered process. The payload follows.
pub(crate) fn send_named(out: &mut Vec<u8>, from: Pid<'_>, to: &str) {
    head(out, REG_SEND, 3);
    write::pid(out, from);
    write::atom(out, "");
    write::atom(out, to);
}

/// Writes a message to an alias. The peer drops it if the alias is no longer active. The payload
/// follows.
pub(crate) fn alias_send(out: &mut Vec<u8>, from: Raw<'_>, alias: Raw<'_>) {
    head(out, ALIAS_SEND, 2);
    write::raw(out, from);
    write::raw(out, alias);
}

/// Writes a request to add or remove a monitor. Its reference is one of the node of `from`, with
/// these words.
pub(crate) fn monitor(out: &mut Vec<u8>, adds: bool, from: Pid<'_>, of: Pid<'_>, words: [u32; 3]) {
    head(out, if adds { MONITOR_P } else { DEMONITOR_P }, 3);
    write::pid(out, from);
    write::pid(out, of);
    write::reference(out, from.node, from.creation, &words);
}

/// Writes the answer to a monitor of a process that does not exist.
pub(crate) fn no_process(out: &mut Vec<u8>, who: Raw<'_>, to: Pid<'_>, reference: Raw<'_>) {
    head(out, MONITOR_P_EXIT, 4);
    write::raw(out, who);
    write::pid(out, to);
    write::raw(out, reference);
    write::atom(out, "noproc");
}

/// Writes the end of a link, which ends the other process unless it traps exits.
pub(crate) fn exit(out: &mut Vec<u8>, from: Pid<'_>, to: Pid<'_>, reason: &str) {
    head(out, EXIT, 3);
    write::pid(out, from);
    write::pid(out, to);
    write::atom(out, reason);
}

/// Writes a link to a process.
pub(crate) fn link(out: &mut Vec<u8>, from: Pid<'_>, to: Pid<'_>) {
    head(out, LINK, 2);
    write::pid(out, from);
    write::pid(out, to);
}

/// Writes the removal of a link, which the peer acknowledges.
pub(crate) fn unlink(out: &mut Vec<u8>, from: Pid<'_>, to: Pid<'_>) {
    head(out, UNLINK_ID, 3);
    // Identifies the removal among those of this link, of which there is one.
    write::integer(out, 1);
    write::pid(out, from);
    write::pid(out, to);
}

/// Writes the acknowledgement of a removed link.
pub(crate) fn unlink_acknowledged(out: &mut Vec<u8>, id: Raw<'_>, from: Pid<'_>, to: Pid<'_>) {
    head(out, UNLINK_ID_ACK, 3);
    write::raw(out, id);
    write::pid(out, from);
    write::pid(out, to);
}
