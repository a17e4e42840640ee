//! Groups: appends that share an entry.
//!
//! Owns the bytes of an entry from its first command to the moment when it is read back.

use std::mem;
use std::time::Duration;

use bytes::Bytes;

use super::options::{RESEND_AFTER, RESEND_STORED_AFTER};
use super::{Finished, Refused};
use crate::append::AppendError;
use crate::command::Command;
use crate::entry::EntryHead;
use crate::incarnation::Incarnation;
use crate::place::{Position, StreamSequence};

/// Appends that are or will be one entry, and their tokens. Owned by the writer's queue.
#[derive(Debug)]
pub(super) struct Group<T> {
    form: Form,
    commands: usize,
    items: Vec<Item<T>>,
    /// When the first append came.
    pub(super) since: Duration,
    /// Whether it takes no more appends.
    pub(super) is_closed: bool,
    /// Bytes that it counts for against the writer's bound.
    pub(super) charge: usize,
    /// When it was last sent; `None` if not since the writer took its incarnation.
    pub(super) sent: Option<Duration>,
    /// Where the engine said it had stored a copy that the reader has not reached yet.
    pub(super) stored: Option<StreamSequence>,
}

/// Bytes of an entry.
#[derive(Debug)]
enum Form {
    /// Room for the head, then commands. It has no number yet.
    Open(Vec<u8>),
    /// As it was sent under a number.
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

    /// Adds commands that were checked, and fit.
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

    /// Returns the bytes under a number. They stay the same as long as the incarnation does.
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

    /// Takes its number away, because no copy of it can count.
    pub(super) fn forget_number(&mut self) {
        if let Form::Numbered(bytes) = &mut self.form {
            self.form = Form::Open(mem::take(bytes).into());
        }
        (self.sent, self.stored) = (None, None);
    }

    /// Returns when it must be sent again, if it was sent.
    pub(super) fn resend_at(&self) -> Option<Duration> {
        let after = match self.stored {
            Some(_) => RESEND_STORED_AFTER,
            None => RESEND_AFTER,
        };
        Some(self.sent? + after)
    }

    /// Returns whether an append in it waits for an answer.
    pub(super) const fn has_tokens(&self) -> bool {
        !self.items.is_empty()
    }

    /// Returns the number of appends in it that wait for an answer.
    pub(super) const fn appends(&self) -> usize {
        self.items.len()
    }

    /// Answers all its appends; the entry stays.
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
