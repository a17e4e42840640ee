//! Groups: appends that share an entry.
//!
//! Owns the bytes of an entry until it is read back.

use std::mem;
use std::time::Duration;

use bytes::Bytes;

use super::options::{RESEND_AFTER, RESEND_STORED_AFTER};
use super::{Finished, Refused};
use crate::append::AppendError;
use crate::command::Command;
use crate::entry::EntryHead;
use crate::incarnation::Incarnation;
use crate::position::{Position, StreamSequence};

/// Appends that form one entry, and their tokens. Owned by the writer's queue.
#[derive(Debug)]
pub(super) struct Group<T> {
    form: Form,
    commands: usize,
    items: Vec<Item<T>>,
    /// Time of the first append.
    pub(super) since: Duration,
    /// Whether the group accepts no more appends.
    pub(super) is_closed: bool,
    /// Weight against the writer's bound, in bytes.
    pub(super) charge: usize,
    /// Time when the entry was last sent; `None` if not sent under the current incarnation.
    pub(super) sent: Option<Duration>,
    /// Sequence of a copy that the engine has acknowledged and the reader has not reached yet.
    pub(super) stored: Option<StreamSequence>,
}

/// Bytes of an entry.
#[derive(Debug)]
enum Form {
    /// Space for the head, then commands. The entry has no number yet.
    Open(Vec<u8>),
    /// The entry with its number, as it was sent.
    Numbered(Bytes),
}

/// An append within a group.
#[derive(Debug)]
struct Item<T> {
    token: T,
    /// Index of its first command.
    first: u16,
    commands: usize,
}

impl<T> Group<T> {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            form: Form::Open(vec![0; EntryHead::BYTES]),
            commands: 0,
            items: Vec::new(),
            since: now,
            is_closed: false,
            charge: 0,
            sent: None,
            stored: None,
        }
    }

    pub(super) const fn len(&self) -> usize {
        match &self.form {
            Form::Open(bytes) => bytes.len(),
            Form::Numbered(bytes) => bytes.len(),
        }
    }

    pub(super) const fn commands(&self) -> usize {
        self.commands
    }

    /// Adds commands, which must have been checked and fit.
    pub(super) fn push(&mut self, commands: &[Command], token: T) {
        let Form::Open(bytes) = &mut self.form else {
            unreachable!("only a group without a number takes appends");
        };
        for command in commands {
            command.put(bytes);
        }
        let first = u16::try_from(self.commands).expect("an entry has room for what it takes");
        self.items.push(Item {
            token,
            first,
            commands: commands.len(),
        });
        self.commands += commands.len();
    }

    /// Returns the entry with this number. Its bytes stay the same as long as the incarnation does.
    pub(super) fn numbered(&mut self, incarnation: Incarnation, number: u64) -> Bytes {
        if let Form::Open(bytes) = &mut self.form {
            let head = EntryHead {
                incarnation,
                number,
                commands: self.commands,
            };
            let mut bytes = mem::take(bytes);
            bytes[..EntryHead::BYTES].copy_from_slice(&head.to_bytes());
            self.form = Form::Numbered(bytes.into());
        }
        self.is_closed = true;
        match &self.form {
            Form::Numbered(bytes) => bytes.clone(),
            Form::Open(_) => unreachable!("it was given a number above"),
        }
    }

    /// Removes the number of the entry, as no copy of it can count.
    pub(super) fn forget_number(&mut self) {
        if let Form::Numbered(bytes) = &mut self.form {
            self.form = Form::Open(mem::take(bytes).into());
        }
        (self.sent, self.stored) = (None, None);
    }

    /// Returns when the entry must be resent, if it was sent.
    pub(super) fn resend_at(&self) -> Option<Duration> {
        let after = match self.stored {
            Some(_) => RESEND_STORED_AFTER,
            None => RESEND_AFTER,
        };
        Some(self.sent? + after)
    }

    /// Returns whether an append of this group waits for an answer.
    pub(super) const fn has_tokens(&self) -> bool {
        !self.items.is_empty()
    }

    /// Returns the number of appends of this group that wait for an answer.
    pub(super) const fn appends(&self) -> usize {
        self.items.len()
    }

    /// Answers all appends of this group with an error. The entry stays.
    pub(super) fn refuse(&mut self, error: AppendError) -> impl Iterator<Item = Refused<T>> {
        let items = mem::take(&mut self.items).into_iter();
        items.map(move |Item { token, .. }| Refused { token, error })
    }

    /// Returns the appends with their positions in the entry at `sequence`.
    pub(super) fn finish(self, sequence: StreamSequence) -> impl Iterator<Item = Finished<T>> {
        self.items.into_iter().map(move |item| Finished {
            token: item.token,
            first: Position::new(sequence, item.first),
            commands: item.commands,
        })
    }
}
