//! Recorder: posted events into the history.
//!
//! Owns the order of the history, which is that of the mailboxes, and the references to the keys
//! of its events. Must never hold its lock while anything but memory is waited for.

use std::sync::atomic::{AtomicU32, Ordering};

use graph::Key;
use history::{Entry, History, Limits, Reach};
use parking_lot::{RwLock, RwLockWriteGuard};

use crate::event::{ContentType, Event};

/// History of the events that a router has posted.
#[derive(Debug)]
pub struct Recorder {
    history: RwLock<History>,
    /// Time that events are stored with; see [`Router::tick`](crate::Router::tick).
    seconds: AtomicU32,
}

/// What is to become of an event in the history.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keep {
    /// It is stored under this key, which has a reference for it.
    Store(Key, Reach),
    /// Its publisher does not want it stored.
    Skip,
    /// There is no key for it.
    Lose,
}

impl Recorder {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            history: RwLock::new(History::new(limits, 0)),
            seconds: AtomicU32::new(0),
        }
    }

    /// Calls `read` with the history. Publishers wait meanwhile. Whoever has an event from
    /// a mailbox finds it in the history.
    pub fn read<T>(&self, read: impl FnOnce(&History) -> T) -> T {
        read(&self.history.read())
    }

    /// Begins to write. The caller holds the sequencer's lock and lets it go while it writes, so
    /// that the history has the order of the mailboxes.
    pub(crate) fn lock(&self) -> Writer<'_> {
        Writer {
            history: self.history.write(),
            seconds: self.seconds.load(Ordering::Relaxed),
        }
    }

    /// Sets the time, and removes events that are too old. Puts the keys that are no longer
    /// referred to into `released`.
    pub(crate) fn tick(&self, seconds: u32, released: &mut Vec<Key>) {
        self.seconds.store(seconds, Ordering::Relaxed);
        self.history.write().expire(seconds, released);
    }
}

/// The history while events are appended.
pub(crate) struct Writer<'a> {
    history: RwLockWriteGuard<'a, History>,
    seconds: u32,
}

impl Writer<'_> {
    /// Appends the events of a batch, the first of which has the number `first_sequence`. Puts the
    /// keys that lose a reference into `released`.
    pub(crate) fn append(
        &mut self,
        first_sequence: u64,
        events: &[Event],
        keeps: impl Iterator<Item = Keep>,
        released: &mut Vec<Key>,
    ) {
        for ((position, event), keep) in (first_sequence..).zip(events).zip(keeps) {
            let (key, reach) = match keep {
                Keep::Store(key, reach) => (key, reach),
                Keep::Skip => {
                    self.history.skip(position);
                    continue;
                }
                Keep::Lose => {
                    self.history.lose(position);
                    continue;
                }
            };
            let entry = Entry {
                position,
                key,
                reach,
                tag: event.payload.content_type().tag(),
                event_type: event.event_type.as_ref().map_or("", |kind| kind.as_str()),
                payload: event.payload.bytes(),
            };
            // The history has one reference to each of its keys.
            if !self.history.append(&entry, self.seconds, released) {
                released.push(key);
            }
        }
    }
}

impl ContentType {
    /// Returns the tag of events with such a payload in the history.
    const fn tag(self) -> u8 {
        match self {
            Self::Json => 0,
            Self::Text => 1,
            Self::Binary => 2,
        }
    }

    /// Returns the content type with this tag.
    pub const fn of_tag(tag: u8) -> Option<Self> {
        match tag {
            0 => Some(Self::Json),
            1 => Some(Self::Text),
            2 => Some(Self::Binary),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock, Weak};

    use graph::{Graph, Id};
    use reactor::SlotKey;

    use super::*;
    use crate::event::Payload;
    use crate::plan::Parcel;
    use crate::route::Router;
    use crate::session::{Mailboxes, SessionRef, WorkerId};
    use crate::tally::Tally;

    /// Mailboxes that look whether the history can be read when a worker gets an event.
    #[derive(Default)]
    struct Watching(OnceLock<Weak<Router<Self>>>);

    impl Watching {
        fn assert_locked(&self) {
            let router = self.0.get().and_then(Weak::upgrade).expect("it is set");
            let recorder = router.recorder().expect("it has a history");
            assert!(recorder.history.is_locked_exclusive());
        }
    }

    impl Mailboxes for Watching {
        fn post(&self, _: WorkerId, _: Parcel) -> Result<(), Parcel> {
            self.assert_locked();
            Ok(())
        }

        fn ring(&self, _: WorkerId) {
            self.assert_locked();
        }
    }

    #[test]
    fn a_worker_that_has_an_event_cannot_read_the_history_before_it_is_stored() {
        let bytes = 1 << 20;
        let limits = Limits {
            bytes,
            age_seconds: None,
        };
        let graph = Arc::new(Graph::memory());
        let router = Router::new("e", graph, Watching::default()).with_history(limits);
        let router = Arc::new(router);
        let weak = Arc::downgrade(&router);
        router.mailboxes().0.set(weak).expect("it was not set");
        let slot = SlotKey {
            index: 0,
            generation: 0,
        };
        let session = SessionRef::new(WorkerId(0), slot);
        router.login(&Id::from(1), session).expect("an integer");
        let payload = Payload::text("hello".into());
        let event = Event {
            subject: Id::from(1),
            event_type: None,
            payload,
        };
        let accepted = router.publish(event, &Tally::new());
        let head = router
            .recorder()
            .map(|recorder| recorder.read(History::head));
        assert_eq!(
            (accepted.audience.online, head),
            (1, Some(accepted.sequence))
        );
    }
}
