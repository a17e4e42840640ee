//! What a poll is answered: a batch of events, and the cursor behind it.

use graph::Key;
use history::{Cursor, History};
use router::{Mailboxes, Router};
use wire::cloudevents::push_cloud_event;
use wire::event::Event;
use wire::notice::{Notice, ResetReason};
use wire::object::push_object;
use wire::start::Start;

use crate::limits::Limits;
use crate::replay::{after_reset, check, each_stored};

/// Form of the events in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchFormat {
    /// An array of JSON objects.
    Json,
    /// A batch of CloudEvents (JSON event format 1.0.2, section 4).
    CloudEvents,
}

impl BatchFormat {
    /// Returns the media type.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::CloudEvents => "application/cloudevents-batch+json",
        }
    }
}

/// Events that a poll is answered with.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The array; empty if there is nothing to tell.
    pub(crate) body: Vec<u8>,
    /// Position of the next poll's cursor.
    pub(crate) position: u64,
    /// Why events may be missing before these.
    pub(crate) reset: Option<ResetReason>,
}

/// Events of the history that an answer begins with.
#[derive(Debug, Clone, Copy)]
enum Range {
    /// Those after a position.
    After(u64),
    /// The last ones of each subject up to a position.
    Rewind { count: u8, until: u64 },
}

impl Batch {
    /// Returns whether there is something to tell.
    pub(crate) const fn has_news(&self) -> bool {
        !self.body.is_empty() || self.reset.is_some()
    }

    /// Puts elements, with commas between them, before the others.
    pub(crate) fn begin_with(&mut self, mut elements: Vec<u8>) {
        if elements.is_empty() {
            return;
        }
        elements.insert(0, b'[');
        match self.body.is_empty() {
            true => elements.push(b']'),
            false => {
                elements.push(b',');
                elements.extend_from_slice(&self.body[1..]);
            }
        }
        self.body = elements;
    }
}

/// Search for what a poll is answered.
pub(crate) struct BatchSearch<'a, M> {
    pub(crate) router: &'a Router<M>,
    /// Keys of the ids that the poll is logged in as.
    pub(crate) keys: &'a [Key],
    pub(crate) format: BatchFormat,
    pub(crate) limits: &'a Limits,
}

impl<M: Mailboxes> BatchSearch<'_, M> {
    /// Makes the answer to a poll that has just logged in. `head` was read before the login.
    /// Without a history, the batch is empty.
    pub(crate) fn begin(&self, head: u64, start: &Start<'_>) -> Batch {
        let Some(recorder) = self.router.recorder() else {
            return Batch::default();
        };
        let after = match start {
            // A poll cannot say more in a message.
            Start::Live | Start::InMessage => head,
            Start::Earliest => recorder.read(History::left),
            Start::Rewind(count) => {
                let (count, until) = (*count, head);
                let rewind = Range::Rewind { count, until };
                return self.find(rewind, None).unwrap_or_default();
            }
            Start::After(text) => match check(self.router, text) {
                Ok(cursor) => cursor.complete,
                Err((reason, floor)) => return self.reset(floor, reason, text),
            },
        };
        self.after(after)
    }

    /// Makes the answer to a poll from what there is after a position.
    pub(crate) fn after(&self, after: u64) -> Batch {
        self.find(Range::After(after), None).unwrap_or_else(|| {
            let from = Cursor::complete(self.router.epoch(), after).to_string();
            self.reset(after, ResetReason::Expired, &from)
        })
    }

    /// Makes the answer to a poll that may have missed events which are no longer there: it gets
    /// the latest of those that are, and not a flood.
    fn reset(&self, floor: u64, reason: ResetReason, from: &str) -> Batch {
        let after = after_reset(self.router, self.keys, floor, self.limits);
        let reset = Some((reason, from));
        self.find(Range::After(after), reset).unwrap_or_else(|| {
            // The rest has left meanwhile: a reset says so already.
            let mut body = Vec::new();
            push_reset(reset, self.format, &mut body);
            close(&mut body);
            Batch {
                body,
                position: self.router.head().unwrap_or(after),
                reset: Some(reason),
            }
        })
    }

    /// Makes a batch of the first events of a range. `None` if some of them have left the history.
    fn find(&self, range: Range, reset: Option<(ResetReason, &str)>) -> Option<Batch> {
        let (router, keys, max) = (self.router, self.keys, self.limits.poll_events_max);
        let mut found = Vec::new();
        let (last, more) = match range {
            Range::After(after) => {
                let head = router.head()?;
                let more = router.missed(keys, after, head, max, &mut found);
                // A node of a cluster may be behind its client, which keeps its cursor.
                (head.max(after), more)
            }
            Range::Rewind { count, until } => {
                let more = router.rewind(keys, 0, until, count.into(), max, &mut found);
                (until, more)
            }
        };
        let mut body = Vec::new();
        push_reset(reset, self.format, &mut body);
        let mut position = None;
        let is_whole = router.recorder()?.read(|history| {
            if matches!(range, Range::After(after) if history.left() > after) {
                return None;
            }
            let push = |at, event: &Event<'_>| {
                let has_room = body.len() < self.limits.poll_bytes_max;
                if has_room {
                    separate(&mut body);
                    match self.format {
                        BatchFormat::Json => push_object(event, &mut body),
                        BatchFormat::CloudEvents => push_cloud_event(event, &mut body),
                    }
                    position = Some(at);
                }
                has_room
            };
            Some(each_stored(router, history, &found, push))
        })?;
        close(&mut body);
        let last_found = found.last().filter(|_| more).map(|missed| missed.position);
        let cut = position.filter(|_| !is_whole);
        Some(Batch {
            body,
            position: cut.or(last_found).unwrap_or(last),
            reset: reset.map(|(reason, _)| reason),
        })
    }
}

/// Appends what precedes an element of the array.
fn separate(body: &mut Vec<u8>) {
    body.push(if body.is_empty() { b'[' } else { b',' });
}

/// Ends the array, if there is one.
fn close(body: &mut Vec<u8>) {
    if !body.is_empty() {
        body.push(b']');
    }
}

/// Appends the notice of a reset, where the array may have one: a batch of CloudEvents has nothing
/// but CloudEvents.
fn push_reset(reset: Option<(ResetReason, &str)>, format: BatchFormat, body: &mut Vec<u8>) {
    if let (Some((reason, from)), BatchFormat::Json) = (reset, format) {
        separate(body);
        Notice::Reset { reason, from }.push_object(body);
    }
}
