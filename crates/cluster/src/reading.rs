//! The apply thread: reads and applies the log, entry by entry.
//!
//! Owns the order of steps: an entry is read, applied and passed to the writer before the next one
//! is read. Must never continue after an entry that it cannot read or apply.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use replication::{
    ANSWER_TIME, Answer, Checkpoint, Command, Entry, Finished, Incarnation, Outcome, Read,
    ReadError, Reader, Receipt, StreamSequence, Wait,
};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use crate::consumer::Message;
use crate::pending::Pending;
use crate::shared::Shared;
use crate::waiting::{Waiting, complete};

/// Context of an entry that was read.
#[derive(Debug, Clone, Copy)]
pub struct EntryRead<'a> {
    /// State of the reader after the entry, to be stored with its changes. `after.read` is its
    /// sequence.
    pub after: &'a Checkpoint,
    /// Time when the log stored it, in seconds since 1970: the same on all nodes. It may be
    /// slightly earlier than that of the previous entry, if the clocks of the engine's servers
    /// differ.
    pub seconds: u64,
    /// Whether the current incarnation of this node wrote it.
    pub is_own: bool,
    /// Incarnations that the entry ended.
    pub ended: &'a [Incarnation],
}

/// State machine that applies the log on a node. Owned by the apply thread.
pub trait Apply: Send + 'static {
    /// Returns the state of the reader that the last run has stored, from which reading begins. The
    /// default checkpoint is the beginning of the log.
    fn start(&self) -> Checkpoint;

    /// Applies an entry that counts. Returns a result for each command.
    ///
    /// # Errors
    ///
    /// A sentence when the entry cannot be applied. The node then applies no further entries.
    fn apply(&mut self, entry: &Entry, read: EntryRead<'_>) -> Result<Vec<Pending>, String>;

    /// Records an entry that does not count.
    ///
    /// # Errors
    ///
    /// Those of [`apply`](Self::apply).
    fn skip(&mut self, read: EntryRead<'_>) -> Result<(), String>;
}

/// State of the apply thread.
pub(crate) struct ApplyThread<A> {
    pub(crate) applier: A,
    pub(crate) reader: Reader,
    pub(crate) shared: Arc<Shared>,
}

impl<A: Apply> ApplyThread<A> {
    /// Applies messages until the consumer ends.
    ///
    /// # Errors
    ///
    /// A sentence when the log cannot be applied further.
    pub(crate) fn run(mut self, mut messages: Receiver<Message>) -> Result<(), String> {
        while let Some(message) = messages.blocking_recv() {
            self.take(&message)?;
        }
        Ok(())
    }

    fn take(&mut self, message: &Message) -> Result<(), String> {
        let sequence = StreamSequence::new(message.sequence)
            .ok_or_else(|| "the log has more entries than there are positions".to_owned())?;
        let read = match self.reader.read(sequence, &message.payload) {
            Ok(read) => read,
            // The consumer was created again and began earlier.
            Err(ReadError::AlreadyRead { .. }) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let after = self.reader.checkpoint();
        let own = self.shared.outbox.incarnation();
        let mut results = Vec::new();
        let entry_read = EntryRead {
            after,
            seconds: message.seconds,
            is_own: own == Some(read.head.incarnation),
            ended: &read.ended,
        };
        match &read.outcome {
            Outcome::Counts(entry) => {
                results = self.applier.apply(entry, entry_read)?;
                self.shared.counts.applied.fetch_add(1, Ordering::Relaxed);
                self.update_members(&read, entry);
            }
            Outcome::Skipped(_) => {
                self.applier.skip(entry_read)?;
                self.shared.counts.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.shared.outbox.contact.apply(sequence.number());
        let finished = self.shared.outbox.with(|writer| writer.read_back(&read));
        self.shared.outbox.wake.notify_one();
        let finished = finished.unwrap_or_else(|| Ok(Vec::new()));
        let finished = finished.map_err(|error| error.to_string())?;
        self.settle(&read, own, finished, results);
        Ok(())
    }

    /// Updates the members of the cluster if the entry has changed them.
    fn update_members(&mut self, read: &Read, entry: &Entry) {
        let begins = |command: &Command| matches!(command, Command::NodeUp { .. });
        if read.ended.is_empty() && !entry.commands.iter().any(begins) {
            return;
        }
        let now = self.shared.outbox.contact.now();
        let table = self.reader.table();
        self.shared.membership.lock().sync(now, table);
        for &incarnation in &read.ended {
            let receipts = self.shared.receipts.lock().gone(incarnation);
            complete(receipts);
        }
    }

    /// Answers the appends of an entry, and sends the counts of this node to its writer.
    fn settle(
        &self,
        read: &Read,
        own: Option<Incarnation>,
        finished: Vec<Finished<Waiting>>,
        results: Vec<Pending>,
    ) {
        let sequence = read.sequence;
        let has_events = results.iter().any(Pending::is_event);
        let waits = |it: &Finished<Waiting>| has_events && it.token.wait() == Wait::Delivered;
        let (later, now) = finished.into_iter().partition::<Vec<_>, _>(waits);
        if !now.is_empty() {
            // Its answers are those of this node alone.
            complete([Receipt {
                sequence,
                token: now,
                results: results.iter().map(Pending::so_far).collect(),
                nodes: 1,
                missing: Vec::new(),
            }]);
        }
        let table = self.reader.table();
        let mut receipts = self.shared.receipts.lock();
        let done = match later.is_empty() {
            true => Vec::new(),
            false => {
                let results = results.iter().map(Pending::without_counts).collect();
                let now = self.shared.outbox.contact.now();
                receipts.expect(now, sequence, table, results, later)
            }
        };
        receipts.read(sequence);
        drop(receipts);
        complete(done);
        let own = own.filter(|&own| table.member(own).is_some());
        let writer = table.member(read.head.incarnation);
        if let Some((own, writer)) = own.zip(writer).filter(|_| has_events) {
            let to = (own != read.head.incarnation).then(|| writer.name.clone());
            self.answer_writer(sequence, own, to, results);
        }
    }

    /// Sends the counts of an entry's events on this node to its writer, as soon as they are final.
    /// `to` is `None` if the writer is this node.
    fn answer_writer(
        &self,
        sequence: StreamSequence,
        own: Incarnation,
        to: Option<Box<str>>,
        results: Vec<Pending>,
    ) {
        let shared = Arc::clone(&self.shared);
        let is_settled = results.iter().all(Pending::is_settled);
        let give = move |results: &[Pending]| {
            let events = (0..)
                .zip(results)
                .filter_map(|(index, it)| it.counts(index));
            let events = events.collect();
            let answer = Answer { sequence, events };
            match to {
                // If too many answers are waiting, this node is missing in some receipts.
                Some(name) => drop(shared.answers.try_send((name, answer))),
                None => shared.answer(own, answer),
            }
        };
        if is_settled {
            return give(&results);
        }
        self.shared.runtime.spawn(async move {
            let settled = async {
                for result in &results {
                    result.settle().await;
                }
            };
            // Later answers are not part of a receipt.
            if timeout(ANSWER_TIME, settled).await.is_ok() {
                give(&results);
            }
        });
    }
}
