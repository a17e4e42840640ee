//! Application of entries, in the order of the log.
//!
//! Owns the effects of an entry on this node: events go to its sessions and its history, changes to
//! its graph, shared state to its keeper. Decisions must never depend on the clock or the engine,
//! so that they are the same on all nodes.
//!
//! At start a node reads the log from an earlier position than that of its graph. Up to the
//! position of the graph, only the history gets the events, as the graph and the shared state,
//! which is stored with it, have all entries already. Later entries are applied completely. No
//! client is connected meanwhile.

/// Position from which a node reads the log.
mod start;
/// Schedule for storing the position in the log.
mod schedule;

use std::fmt;
use std::sync::Arc;

use replication::shared::{Gone, Piece, SharedSink};
use replication::{Checkpoint, Command, Entry, EventRecord, Incarnation, Position, StreamSequence};
use router::{Batch, Event, Mailboxes, Payload, RestoredEvent, Router};

use crate::pending::Pending;
use crate::reading::{Apply, EntryRead};
use schedule::Schedule;
pub use start::{StartError, begin_from};

/// Maximum number of events that are posted together. Sessions that resume wait for the history
/// while the events are stored.
const EVENTS_PER_POST_MAX: usize = 1024;

/// Applies entries. Owned by the thread that reads the log; no other thread may post events or
/// change the graph.
pub struct Applier<M: Mailboxes> {
    router: Arc<Router<M>>,
    shared: Option<Arc<dyn SharedSink>>,
    /// Position from which the log is read.
    from: Checkpoint,
    /// Position that was stored with the graph when the node started.
    stored: graph::Checkpoint,
    /// Whether shared state was stored with that position. Graphs of an older format have none, so
    /// it is built from the log, from where reading begins.
    has_shared: bool,
    /// Last entry applied.
    applied: StreamSequence,
    schedule: Schedule,
    /// Working memory.
    batch: Batch,
}

/// An entry that is being applied.
#[derive(Debug, Clone, Copy)]
struct Context {
    sequence: StreamSequence,
    incarnation: Incarnation,
    is_own: bool,
    /// Time when the log stored the entry, in seconds since 1970.
    seconds: u32,
    /// Whether the graph has the entry already, so that only the history gets it.
    is_refill: bool,
    /// Whether the shared state has the entry already.
    is_shared: bool,
}

impl Context {
    const fn position(&self, index: usize) -> Position {
        Position::new(self.sequence, index as u16)
    }
}

impl<M: Mailboxes> Applier<M> {
    /// Creates an applier that continues after `from`, the result of [`begin_from`].
    /// `history_bytes` is the size of the router's history, `log_bytes_max` the limit of the log, 0
    /// for none. The node must not serve clients before it has applied all entries that were in the
    /// log at its start.
    ///
    /// # Errors
    ///
    /// When the graph does not follow the log of the router's epoch, when `from` is after the
    /// graph's position, or when the router has numbered events by itself.
    pub fn new(
        router: Arc<Router<M>>,
        shared: Option<Arc<dyn SharedSink>>,
        from: Checkpoint,
        history_bytes: usize,
        log_bytes_max: u64,
    ) -> Result<Self, StartError> {
        let Some(places) = router.graph().log_start() else {
            return Err(StartError::NotInLog);
        };
        let stored = places.last.clone();
        if *places.epoch != *router.epoch() {
            return Err(StartError::OtherEpoch);
        }
        if from.read.number() > stored.sequence {
            return Err(StartError::TooLate {
                from: from.read.number(),
                stored: stored.sequence,
            });
        }
        let head = Position::new(from.read, u16::MAX).number();
        router.follow_log(head).map_err(StartError::Numbered)?;
        let has_kept = !places.earlier.is_empty();
        Ok(Self {
            schedule: Schedule::new(history_bytes, log_bytes_max, has_kept),
            has_shared: router.graph().has_rows_of_log(),
            stored,
            applied: from.read,
            from,
            router,
            shared,
            batch: Batch::default(),
        })
    }

    /// Begins an entry. `after` is the state of the reader after it. Returns whether the graph has
    /// the entry already.
    fn begin(&mut self, after: &Checkpoint) -> Result<bool, String> {
        let sequence = after.read;
        if sequence != self.applied.next() {
            let applied = self.applied;
            return Err(format!(
                "entry {sequence} of the log came after entry {applied}; this is a bug in Encke"
            ));
        }
        if sequence.number() == self.stored.sequence && after.encode() != *self.stored.table {
            return Err(format!(
                "the log up to entry {sequence} differs from the one that this node has applied; \
                 remove its data directory, so that it starts from a snapshot"
            ));
        }
        self.applied = sequence;
        Ok(sequence.number() <= self.stored.sequence)
    }

    /// Passes the time of an entry to the shared state, unless it has the entry already. Returns
    /// whether it has.
    fn advance(&self, read: EntryRead<'_>, is_refill: bool) -> bool {
        let is_shared = is_refill && self.has_shared;
        if let Some(shared) = self.shared.as_ref().filter(|_| !is_shared) {
            shared.advance(read.seconds);
        }
        is_shared
    }

    /// Ends an entry. Its changes go to disk with its position.
    fn end(&mut self, after: &Checkpoint, is_refill: bool) {
        self.router
            .advance_head(Position::new(after.read, u16::MAX).number());
        if is_refill {
            return;
        }
        let graph = self.router.graph();
        let shared = self.shared.as_ref();
        let is_changed = shared.is_some_and(|shared| shared.has_changes());
        let changes = graph.unplaced() + usize::from(is_changed);
        if let Some(is_kept) = self.schedule.due(changes) {
            if let Some(shared) = shared {
                // They are on disk when the position is.
                graph.set_rows(shared.take_changes(), drop);
            }
            graph.place(after.into(), is_kept);
        }
    }

    /// Applies the commands of an entry: consecutive events together, and consecutive changes.
    fn commands(&mut self, entry: &Entry, context: Context) -> Result<Vec<Pending>, String> {
        let mut results = Vec::with_capacity(entry.commands.len());
        while let Some((first, _)) = entry.commands[results.len()..].split_first() {
            let left = &entry.commands[results.len()..];
            match first {
                Command::Event(_) => {
                    let is_event = |command: &&Command| matches!(command, Command::Event(_));
                    let count = left.iter().take_while(is_event).count();
                    let run = &left[..count.min(EVENTS_PER_POST_MAX)];
                    self.events(run, context, &mut results)?;
                }
                Command::Change(_) => {
                    let changes = left.iter().map_while(|command| match command {
                        Command::Change(change) => Some(change),
                        _ => None,
                    });
                    if context.is_refill {
                        results.extend(changes.map(|_| Pending::None));
                        continue;
                    }
                    let changes = changes.inspect(|change| self.schedule.change(change));
                    let effects = self.router.graph().apply(changes);
                    results.extend(effects.into_iter().map(Pending::Change));
                }
                Command::NodeUp { .. } | Command::NodeGone { .. } => results.push(Pending::None),
                Command::Shared { kind, bytes } => {
                    let piece = Piece {
                        position: context.position(results.len()),
                        incarnation: context.incarnation,
                        is_own: context.is_own,
                        kind: *kind,
                        bytes,
                    };
                    let repeated = match self.shared.as_ref() {
                        Some(shared) if context.is_shared => shared.passed_over(piece),
                        Some(shared) => shared.take(piece),
                        None => Ok(0),
                    };
                    let repeated = repeated.map_err(|error| error.to_string())?;
                    let passed = left.len().min(repeated.saturating_add(1));
                    results.extend((0..passed).map(|_| Pending::None));
                }
            }
        }
        Ok(results)
    }

    /// Posts a run of events, or only adds them to the history if the graph has the entry.
    fn events(
        &mut self,
        run: &[Command],
        context: Context,
        results: &mut Vec<Pending>,
    ) -> Result<(), String> {
        let events = run.iter().filter_map(|command| match command {
            Command::Event(event) => Some(event),
            _ => None,
        });
        if context.is_refill {
            for record in events {
                self.refill(record, context.position(results.len()), context.seconds)?;
                results.push(Pending::None);
            }
            return Ok(());
        }
        let first = context.position(results.len()).number();
        let mut planned = self.router.plan(&mut self.batch);
        for (position, record) in (first..).zip(events) {
            self.schedule.event(record);
            let event = event_of(record, Position::from_number(position))?;
            planned.add_for(event, record.reach, record.is_stored);
        }
        let mut position = first;
        let posted = planned.post_at(first, |audience, tally| {
            results.push(Pending::Event {
                position: Position::from_number(position),
                subscribers: audience.subscribers,
                online: audience.online,
                tally,
            });
            position += 1;
        });
        posted.map_err(|error| format!("{error}; this is a defect of Encke"))
    }

    /// Stores an event that the graph has in the history alone. `seconds` is when the log stored
    /// it.
    fn refill(&self, record: &EventRecord, position: Position, seconds: u32) -> Result<(), String> {
        if record.is_stored {
            let event = event_of(record, position)?;
            self.router.refill(RestoredEvent {
                position: position.number(),
                tag: event.payload.content_type().tag(),
                payload: event.payload.bytes(),
                subject: event.subject,
                reach: record.reach,
                seconds,
                event_type: &record.event_type,
            });
        }
        Ok(())
    }
}

impl<M: Mailboxes + 'static> Apply for Applier<M> {
    fn start(&self) -> Checkpoint {
        self.from.clone()
    }

    fn apply(&mut self, entry: &Entry, read: EntryRead<'_>) -> Result<Vec<Pending>, String> {
        let is_refill = self.begin(read.after)?;
        let is_shared = self.advance(read, is_refill);
        let context = Context {
            sequence: read.after.read,
            incarnation: entry.incarnation,
            is_own: read.is_own,
            seconds: u32::try_from(read.seconds).unwrap_or(u32::MAX),
            is_refill,
            is_shared,
        };
        let results = self.commands(entry, context)?;
        if let Some(shared) = self.shared.as_ref().filter(|_| !is_shared) {
            for gone in gone(entry, &read) {
                shared.gone(gone);
            }
        }
        self.end(read.after, is_refill);
        Ok(results)
    }

    fn skip(&mut self, read: EntryRead<'_>) -> Result<(), String> {
        let is_refill = self.begin(read.after)?;
        self.advance(read, is_refill);
        self.end(read.after, is_refill);
        Ok(())
    }
}

/// Returns the ends of incarnations in an entry.
fn gone(entry: &Entry, read: &EntryRead<'_>) -> impl Iterator<Item = Gone> {
    let members = read.after.table.members();
    let oldest = members.min_by_key(|(_, member)| member.since);
    let heir = oldest.map(|(incarnation, _)| incarnation);
    let sequence = read.after.read;
    read.ended.iter().map(move |&incarnation| {
        let ends = |command: &Command| *command == Command::NodeGone { incarnation };
        // It was ended by a command of this entry.
        let index = entry.commands.iter().position(ends).unwrap_or_default();
        Gone {
            incarnation,
            position: Position::new(sequence, index as u16),
            heir,
        }
    })
}

/// Returns the event of a record.
///
/// # Errors
///
/// A sentence when this version does not know the kind of its payload, or its type is invalid: the
/// node must stop, because its clients would miss an event that those of newer nodes get.
fn event_of(record: &EventRecord, position: Position) -> Result<Event, String> {
    read_event(record).ok_or_else(|| {
        let EventRecord {
            tag, event_type, ..
        } = record;
        format!(
            "the event at {position} of the cluster's log (payload of kind {tag}, type \
             {event_type:?}) cannot be read by this version of Encke; update this node to the \
             newest version that runs in the cluster"
        )
    })
}

fn read_event(record: &EventRecord) -> Option<Event> {
    let event_type = match &*record.event_type {
        "" => None,
        text => Some(text.parse().ok()?),
    };
    Some(Event {
        subject: record.subject.clone(),
        event_type,
        payload: Payload::of_tagged(record.tag, record.payload.clone())?,
    })
}

impl<M: Mailboxes> fmt::Debug for Applier<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applier")
            .field("applied", &self.applied)
            .field("stored", &self.stored.sequence)
            .finish_non_exhaustive()
    }
}
