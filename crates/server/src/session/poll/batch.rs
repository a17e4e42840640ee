//! What a poll is answered: a batch of events, and the cursor behind it.

use graph::{Id, Key};
use history::{Cursor, History, Missed};
use router::{Mailboxes, Router};
use wire::cloudevents::push_cloud_event;
use wire::notice::{Notice, ResetReason};
use wire::object::push_object;
use wire::start::Start;

use crate::limits::{POLL_BYTES_MAX, POLL_EVENTS_MAX};
use crate::replay::{after_reset, check, wire_event};

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

    /// Makes the answer to a poll that has just logged in with these keys. `head` was read before
    /// the login. Without a history, the batch is empty.
    pub(crate) fn begin<M: Mailboxes>(
        router: &Router<M>,
        keys: &[Key],
        head: u64,
        start: &Start<'_>,
        format: BatchFormat,
    ) -> Self {
        let Some(recorder) = router.recorder() else {
            return Self::default();
        };
        let after = match start {
            // A poll cannot say more in a message.
            Start::Live | Start::InMessage => head,
            Start::Earliest => recorder.read(History::left),
            Start::Rewind(count) => {
                let (count, until) = (*count, head);
                let rewind = Range::Rewind { count, until };
                return Self::find(router, keys, rewind, None, format).unwrap_or_default();
            }
            Start::After(text) => match check(router, text) {
                Ok(cursor) => cursor.complete,
                Err((reason, floor)) => {
                    return Self::reset(router, keys, floor, reason, text, format);
                }
            },
        };
        Self::after(router, keys, after, format)
    }

    /// Makes the answer to a poll from what there is after a position.
    pub(crate) fn after<M: Mailboxes>(
        router: &Router<M>,
        keys: &[Key],
        after: u64,
        format: BatchFormat,
    ) -> Self {
        Self::find(router, keys, Range::After(after), None, format).unwrap_or_else(|| {
            let from = Cursor::complete(router.epoch(), after).to_string();
            Self::reset(router, keys, after, ResetReason::Expired, &from, format)
        })
    }

    /// Makes the answer to a poll that may have missed events which are no longer there: it gets
    /// the latest of those that are, and not a flood.
    fn reset<M: Mailboxes>(
        router: &Router<M>,
        keys: &[Key],
        floor: u64,
        reason: ResetReason,
        from: &str,
        format: BatchFormat,
    ) -> Self {
        let after = after_reset(router, keys, floor);
        let reset = Some((reason, from));
        Self::find(router, keys, Range::After(after), reset, format).unwrap_or_else(|| {
            // The rest has left meanwhile: a reset says so already.
            let mut body = Vec::new();
            push_reset(reset, format, &mut body);
            close(&mut body);
            Self {
                body,
                position: router.head().unwrap_or(after),
                reset: Some(reason),
            }
        })
    }

    /// Makes a batch of the first events of a range. `None` if some of them have left the history.
    fn find<M: Mailboxes>(
        router: &Router<M>,
        keys: &[Key],
        range: Range,
        reset: Option<(ResetReason, &str)>,
        format: BatchFormat,
    ) -> Option<Self> {
        let mut found = Vec::new();
        let (last, more) = match range {
            Range::After(after) => {
                let head = router.head()?;
                // A node of a cluster may be behind its client, which keeps its cursor.
                (
                    head.max(after),
                    router.missed(keys, after, head, POLL_EVENTS_MAX, &mut found),
                )
            }
            Range::Rewind { count, until } => {
                let (count, max) = (usize::from(count), POLL_EVENTS_MAX);
                (until, router.rewind(keys, 0, until, count, max, &mut found))
            }
        };
        let mut body = Vec::new();
        push_reset(reset, format, &mut body);
        let cut = router.recorder()?.read(|history| {
            let after = match range {
                Range::After(after) => after,
                Range::Rewind { .. } => history.left(),
            };
            let is_whole = history.left() <= after;
            is_whole.then(|| encode(router, history, &found, format, &mut body))
        })?;
        close(&mut body);
        let last_found = found.last().filter(|_| more).map(|missed| missed.position);
        Some(Self {
            body,
            position: cut.or(last_found).unwrap_or(last),
            reset: reset.map(|(reason, _)| reason),
        })
    }
}

/// Appends events to an array. Returns the position of the last one if the rest has no room.
fn encode<M: Mailboxes>(
    router: &Router<M>,
    history: &History,
    found: &[Missed],
    format: BatchFormat,
    body: &mut Vec<u8>,
) -> Option<u64> {
    let mut subject: Option<(Key, Id)> = None;
    let mut last = None;
    for &Missed { place, position } in found {
        if body.len() >= POLL_BYTES_MAX {
            return last;
        }
        // Of a rewind, some may have left since they were found.
        let Some(stored) = history.get(place) else {
            continue;
        };
        if subject
            .as_ref()
            .is_none_or(|(key, _)| *key != stored.entry.key)
        {
            let name = router.graph().name(stored.entry.key);
            subject = name.map(|id| (stored.entry.key, id));
        }
        let Some((_, id)) = &subject else {
            continue;
        };
        separate(body);
        let event = wire_event(router.epoch(), id, &stored);
        match format {
            BatchFormat::Json => push_object(&event, body),
            BatchFormat::CloudEvents => push_cloud_event(&event, body),
        }
        last = Some(position);
    }
    None
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
