//! The client of the model: what it has received, and where it comes back.

use std::collections::{BTreeSet, VecDeque};

/// What a stream carries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Frame {
    /// An event, and up to where the client then has everything.
    Event { position: u64, complete: u64 },
    /// An id without an event: the client has everything up to there.
    Cursor(u64),
    /// Events up to this position may be missing.
    Reset(u64),
}

/// The law that was broken.
#[derive(Debug)]
pub(super) enum Fault {
    /// An event came twice in one connection.
    #[expect(dead_code, reason = "printed")]
    Twice(u64),
    /// An event came again although the cursor said that the client had it.
    #[expect(dead_code, reason = "printed")]
    Repeated(u64),
    /// An event never came.
    #[expect(dead_code, reason = "printed")]
    Missed(u64),
}

#[derive(Debug, Default)]
pub(super) struct Client {
    /// Frames that the server has sent and the client has not read.
    pub(super) wire: VecDeque<Frame>,
    /// Position and complete part of the last id.
    pub(super) cursor: Option<(u64, u64)>,
    /// The first cursor: nothing up to there is owed.
    first: Option<u64>,
    received: BTreeSet<u64>,
    in_connection: BTreeSet<u64>,
    /// Where the current connection began.
    resumed: u64,
    /// A reset has said that events up to here may be missing.
    forgiven: u64,
    /// Events that are not owed.
    excused: BTreeSet<u64>,
    /// Events that were planned for the first connection.
    promised: BTreeSet<u64>,
}

impl Client {
    /// Reads a frame.
    pub(super) fn read(&mut self) -> Result<(), Fault> {
        match self.wire.pop_front() {
            None => {}
            Some(Frame::Event { position, complete }) => {
                if !self.in_connection.insert(position) {
                    return Err(Fault::Twice(position));
                }
                if !self.received.insert(position) && position <= self.resumed {
                    return Err(Fault::Repeated(position));
                }
                self.advance(position, complete);
            }
            Some(Frame::Cursor(position)) => self.advance(position, position),
            Some(Frame::Reset(from)) => {
                self.forgiven = self.forgiven.max(from);
                self.advance(from, from);
            }
        }
        Ok(())
    }

    fn advance(&mut self, position: u64, complete: u64) {
        self.cursor = Some((position, complete));
        self.first.get_or_insert(complete);
    }

    /// Begins another connection. What was on its way is lost.
    pub(super) fn reconnect(&mut self) {
        self.wire.clear();
        if self.cursor.is_none() {
            self.promised.clear();
        }
        self.in_connection.clear();
        self.resumed = self.cursor.map_or(0, |(_, complete)| complete);
    }

    /// Notes an event that is not owed.
    pub(super) fn excuse(&mut self, position: u64) {
        self.excused.insert(position);
    }

    /// Notes an event that is owed whatever the first cursor is.
    pub(super) fn promise(&mut self, position: u64) {
        self.promised.insert(position);
    }

    /// Checks that everything up to `head` has come, after all of it was read.
    pub(super) fn judge(&self, head: u64) -> Result<(), Fault> {
        let first = self.first.unwrap_or(head).max(self.forgiven);
        let has =
            |position: &u64| self.received.contains(position) || self.excused.contains(position);
        let promised = self.promised.iter().copied();
        let promised = promised.filter(|&position| position > self.forgiven);
        match promised
            .chain(first + 1..=head)
            .find(|position| !has(position))
        {
            Some(position) => Err(Fault::Missed(position)),
            None => Ok(()),
        }
    }
}
