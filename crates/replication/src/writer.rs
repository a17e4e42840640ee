//! The writer: groups, numbers, sends and resends the entries of one node.
//!
//! An entry counts when it is read back; an acknowledgement of the engine only prevents resending.
//! So the writer may append an entry any number of times. The caller must not let the engine drop
//! repeats by message id, as an entry that came out of order must be stored a second time.
//!
//! After another node has declared it gone, a writer continues under a new incarnation. It has read
//! all entries up to that `NodeGone`, and no entry of the old incarnation can count after it. So
//! the entries not read back do not count, and are appended again, once and in order, under the new
//! incarnation.

mod feedback;
mod group;
mod limit;
mod options;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use self::group::Group;
use self::options::APPEND_BYTES;
pub use self::options::{
    ANSWER_WITHIN, GROUP_BYTES_MAX, GROUP_TIME, IN_FLIGHT_MAX, RESEND_AFTER, RESEND_STORED_AFTER,
    UNAVAILABLE_AFTER, WriterOptions,
};
use crate::append::AppendError;
use crate::command::Command;
use crate::entry::{ENTRY_COMMANDS_MAX, Entry, EntryHead};
use crate::error::DecodeError;
use crate::incarnation::Incarnation;
use crate::position::{Position, StreamSequence};

/// Error of an append that was never sent.
const UNAVAILABLE: AppendError = AppendError::Unavailable {
    retry_after: UNAVAILABLE_AFTER,
};

/// Writer of the log of one node. `T` is a token that the caller gets back with the result of an
/// append. Owned by the driver of the node, as long as the node runs.
///
/// Times are measured from an arbitrary moment and never decrease.
#[derive(Debug)]
pub struct Writer<T> {
    options: WriterOptions,
    phase: Phase,
    /// Sequence of the last entry that this node has read.
    read: StreamSequence,
    /// Groups in the order of their appends. The last one may be open.
    queue: VecDeque<Group<T>>,
    /// Number of groups at the front of the queue that count as sent.
    sent: usize,
    /// Number of the entry of the first group of the queue.
    first_number: u64,
    /// Number up to which entries are sent after a timeout, until the engine responds.
    probe: Option<u64>,
    /// Number of the first group when the writer last went back because of an entry out of turn.
    went_back: u64,
    /// Time until which nothing is sent, as the engine has refused an entry.
    pause_until: Duration,
    /// Time when the connection was lost.
    disconnected: Option<Duration>,
    waiting_bytes: usize,
    resent: u64,
}

/// Entry to append to the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Incarnation of the writer.
    pub incarnation: Incarnation,
    /// Number of the entry.
    pub number: u64,
    /// Encoded entry.
    pub bytes: Bytes,
}

/// Append that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished<T> {
    /// Token of the caller.
    pub token: T,
    /// Position of the first command.
    pub first: Position,
    /// Number of commands.
    pub commands: usize,
}

/// Append that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused<T> {
    /// Token of the caller.
    pub token: T,
    /// Reason.
    pub error: AppendError,
}

/// Error: an entry counts under this node's incarnation but was not written by this node. Another
/// process, perhaps a copy of this one, writes under the same incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "entry {sequence} of the log has this node's incarnation but was not written by this node: \
     another process, perhaps a copy of this machine, writes as this node; restart this node"
)]
pub struct NotOurs {
    /// Sequence of the entry.
    pub sequence: StreamSequence,
}

/// Phase of the incarnation of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No incarnation: another node has declared the last one gone.
    Gone,
    /// No incarnation, and no new one: the writer has ended the last one itself.
    Left,
    /// The `NodeUp` is not read back yet and is to be sent at this time.
    Beginning(Incarnation, Duration),
    /// The `NodeUp` is read back.
    Live(Incarnation),
}

impl<T> Writer<T> {
    /// Creates a connected writer of a node that has read the log up to `read`.
    pub fn new(options: WriterOptions, incarnation: Incarnation, read: StreamSequence) -> Self {
        Self {
            options,
            phase: Phase::Beginning(incarnation, Duration::ZERO),
            read,
            queue: VecDeque::new(),
            sent: 0,
            first_number: 2,
            probe: None,
            went_back: 0,
            pause_until: Duration::ZERO,
            disconnected: None,
            waiting_bytes: 0,
            resent: 0,
        }
    }

    /// Appends commands.
    ///
    /// # Errors
    ///
    /// When they do not fit into an entry, when too many appends are waiting, when the engine was
    /// not reachable for [`UNAVAILABLE_AFTER`], or when the writer has left. Then the commands do
    /// not count.
    pub fn append(
        &mut self,
        now: Duration,
        commands: &[Command],
        token: T,
    ) -> Result<(), Refused<T>> {
        let bytes = match self.admit(now, commands) {
            Ok(bytes) => bytes,
            Err(error) => return Err(Refused { token, error }),
        };
        let fits = |group: &Group<T>| {
            let fits = group.len() + bytes <= self.options.group_bytes_max();
            // The last index stays free, so that an append without commands has a position.
            fits && group.commands() + commands.len() < ENTRY_COMMANDS_MAX
        };
        let open = self.queue.back_mut().filter(|group| !group.is_closed);
        let group = match open {
            Some(group) if fits(group) => group,
            open => {
                if let Some(full) = open {
                    full.is_closed = true;
                }
                self.queue.push_back(Group::new(now));
                self.queue.back_mut().expect("it was pushed")
            }
        };
        group.push(commands, token);
        group.is_closed = group.len() >= self.options.group_bytes_max();
        group.charge += bytes + APPEND_BYTES;
        self.waiting_bytes += bytes + APPEND_BYTES;
        Ok(())
    }

    /// Checks whether commands may be appended. Returns their size, in bytes.
    fn admit(&self, now: Duration, commands: &[Command]) -> Result<usize, AppendError> {
        for command in commands {
            match command.check() {
                Ok(()) => {}
                Err(DecodeError::TooLong { found, max, .. }) => {
                    return Err(AppendError::TooLarge { bytes: found, max });
                }
                // An invalid id, due to a bug. Every node would stop at such an entry, so it must
                // not get into the log.
                Err(error) => {
                    debug_assert!(false, "{error}");
                    let bytes = command.encoded_bytes();
                    return Err(AppendError::TooLarge { bytes, max: 0 });
                }
            }
        }
        let bytes = commands.iter().map(Command::encoded_bytes).sum::<usize>();
        let max = self.options.entry_bytes_max - EntryHead::BYTES;
        if bytes > max || commands.len() > ENTRY_COMMANDS_MAX {
            return Err(AppendError::TooLarge { bytes, max });
        }
        let is_cut_off = self
            .disconnected
            .is_some_and(|at| now >= at + UNAVAILABLE_AFTER);
        if is_cut_off || self.has_left() {
            return Err(UNAVAILABLE);
        }
        if self.waiting_bytes + bytes + APPEND_BYTES > self.options.waiting_bytes_max {
            return Err(AppendError::Full);
        }
        Ok(bytes)
    }

    /// Returns the next entry to send now, if there is one. To be called until there is none, after
    /// every other call and at [`deadline`](Self::deadline).
    pub fn poll_send(&mut self, now: Duration) -> Option<Outgoing> {
        if self.disconnected.is_some() || now < self.pause_until {
            return None;
        }
        let incarnation = match self.phase {
            Phase::Gone | Phase::Left => return None,
            Phase::Beginning(incarnation, due) => {
                return (now >= due).then(|| self.begin(now, incarnation));
            }
            Phase::Live(incarnation) => incarnation,
        };
        if self.resend_at().is_some_and(|at| now >= at) {
            let unsure = self.first_unsure(now);
            self.go_back(unsure);
            self.probe = Some(self.first_number + unsure as u64);
        }
        if self.group_due().is_none_or(|at| now < at) {
            return None;
        }
        let number = self.first_number + self.sent as u64;
        let group = &mut self.queue[self.sent];
        self.resent += u64::from(group.sent.is_some());
        (group.sent, group.stored) = (Some(now), None);
        self.sent += 1;
        debug_assert!(
            self.sent <= IN_FLIGHT_MAX,
            "the window bounds what is in flight"
        );
        Some(Outgoing {
            incarnation,
            number,
            bytes: group.numbered(incarnation, number),
        })
    }

    /// Returns the entry that begins the incarnation, with the last sequence that this node has
    /// read.
    fn begin(&mut self, now: Duration, incarnation: Incarnation) -> Outgoing {
        self.phase = Phase::Beginning(incarnation, now + RESEND_AFTER);
        outgoing(incarnation, 1, vec![self.node_up()])
    }

    /// Returns the command that begins an incarnation of this node.
    fn node_up(&self) -> Command {
        Command::NodeUp {
            name: self.options.name.clone(),
            version: self.options.version.clone(),
            after: self.read,
        }
    }

    /// Returns when the next group may be sent.
    fn group_due(&self) -> Option<Duration> {
        let group = self.queue.get(self.sent)?;
        let number = self.first_number + self.sent as u64;
        if self.sent >= IN_FLIGHT_MAX || self.probe.is_some_and(|last| number > last) {
            return None;
        }
        let waits_for_more = !group.is_closed && self.sent > 0;
        Some(match waits_for_more {
            true => group.since + GROUP_TIME,
            false => Duration::ZERO,
        })
    }

    /// Returns when entries in flight must be resent.
    fn resend_at(&self) -> Option<Duration> {
        let in_flight = self.queue.iter().take(self.sent);
        in_flight.filter_map(Group::resend_at).min()
    }

    fn first_unsure(&self, now: Duration) -> usize {
        let mut in_flight = self.queue.iter().take(self.sent);
        let unsure = in_flight.position(|group| {
            group.stored.is_none() || group.resend_at().is_some_and(|at| now >= at)
        });
        unsure.unwrap_or(self.sent)
    }

    fn go_back(&mut self, to: usize) {
        debug_assert!(
            self.sent <= self.queue.len(),
            "what was sent is in the queue"
        );
        self.sent = self.sent.min(to);
    }

    /// Returns when to call [`poll_send`](Self::poll_send) and [`expire`](Self::expire) next, if
    /// there is no other call before.
    pub fn deadline(&self) -> Option<Duration> {
        let oldest = self.queue.iter().find(|group| group.has_tokens());
        let expires = oldest.map(|group| group.since + ANSWER_WITHIN);
        let sends = match self.phase {
            _ if self.disconnected.is_some() => None,
            Phase::Gone | Phase::Left => None,
            Phase::Beginning(_, due) => Some(due),
            Phase::Live(_) => [self.group_due(), self.resend_at()]
                .into_iter()
                .flatten()
                .min(),
        };
        let sends = sends.map(|at| at.max(self.pause_until));
        [expires, sends].into_iter().flatten().min()
    }

    /// Returns the appends that have timed out: with [`AppendError::Unknown`] those that were sent,
    /// which may count later, and with [`AppendError::Unavailable`] those that were not sent, which
    /// are dropped.
    pub fn expire(&mut self, now: Duration) -> Vec<Refused<T>> {
        let is_over = |group: &Group<T>| now >= group.since + ANSWER_WITHIN;
        let mut expired = Vec::new();
        for group in self.queue.iter_mut().take_while(|group| is_over(group)) {
            if group.sent.is_some() {
                expired.extend(group.refuse(AppendError::Unknown));
            }
        }
        let sent = self.queue.iter().take_while(|it| it.sent.is_some()).count();
        let unsent = self.queue.iter().skip(sent);
        let dropped = unsent.take_while(|group| is_over(group)).count();
        for mut group in self.queue.drain(sent..sent + dropped) {
            self.waiting_bytes -= group.charge;
            expired.extend(group.refuse(UNAVAILABLE));
        }
        expired
    }

    /// Ends the writer. Returns all appends that were not read back.
    pub fn end(mut self) -> Vec<Refused<T>> {
        let mut refused = Vec::new();
        for group in &mut self.queue {
            refused.extend(group.refuse(match group.sent {
                Some(_) => AppendError::Unknown,
                None => UNAVAILABLE,
            }));
        }
        refused
    }

    /// Returns the incarnation, unless it has gone.
    pub const fn incarnation(&self) -> Option<Incarnation> {
        match self.phase {
            Phase::Gone | Phase::Left => None,
            Phase::Beginning(incarnation, _) | Phase::Live(incarnation) => Some(incarnation),
        }
    }

    /// Returns whether the `NodeUp` of the incarnation was read back. From then on receipts include
    /// this node.
    pub const fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live(_))
    }

    /// Returns the number of entries that are in flight.
    pub const fn in_flight(&self) -> usize {
        self.sent
    }

    /// Returns the size of all appends that were not read back, in bytes.
    pub const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Returns the number of entries that were resent.
    pub const fn resent(&self) -> u64 {
        self.resent
    }
}

/// Returns an entry that begins or ends incarnations.
fn outgoing(incarnation: Incarnation, number: u64, commands: Vec<Command>) -> Outgoing {
    let entry = Entry {
        incarnation,
        number,
        commands,
    };
    Outgoing {
        incarnation,
        number,
        bytes: entry.encode().expect("name and version are bounded"),
    }
}
