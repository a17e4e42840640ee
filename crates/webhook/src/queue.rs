//! Queue of events, as JSON, in the order in which they were added.
//!
//! Owns the overflow policy: the oldest events are dropped. Must never make a caller that adds an
//! event wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use graph::Id;

use crate::event::{Event, EventTypes};
use crate::limits::{BATCH_BYTES_MAX, BATCH_EVENTS_MAX, QUEUED_BYTES_MAX, QUEUED_EVENTS_MAX};
use crate::sync::{Condvar, Mutex};

/// Queue of events. Shared by the threads that add events and the thread that sends them.
pub struct Queue {
    types: EventTypes,
    node: Option<Box<str>>,
    waiting: Mutex<Waiting>,
    /// Notified when there is a first event or a full batch, or when the server ends.
    changed: Condvar,
}

/// An event in the queue.
#[derive(Debug)]
struct WaitingEvent {
    json: Box<[u8]>,
    /// Position of its cause in the log of a cluster, if the event is known to all nodes.
    place: Option<u64>,
    /// Digest of an event with a position, which is equal on all nodes.
    digest: u64,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<WaitingEvent>,
    bytes: usize,
    /// Events that were dropped since the last batch was taken.
    missed: u64,
    dropped: u64,
    /// Whether the receiver has answered 410.
    is_stopped: bool,
    /// Time until which events are sent; `None` until the server ends.
    flush_until: Option<Instant>,
    /// The log of the cluster; `None` on a single server.
    log: Option<Log>,
}

/// State of a node of a cluster.
#[derive(Clone)]
struct Log {
    epoch: Arc<str>,
    /// Called when the receiver has the events of a position, or never will.
    on_told: Arc<OnTold>,
}

/// Callback that gets a position in the log. Called by the thread of the webhook; must not block.
pub type OnTold = dyn Fn(u64) + Send + Sync;

/// Events of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    /// JSON array of the events.
    pub(crate) body: Vec<u8>,
    /// Number of events, without the one that says how many were missed.
    pub(crate) events: u64,
    /// Number of events that were dropped before these.
    pub(crate) missed: u64,
    /// Position of the events in the log, if they have one.
    pub(crate) place: Option<u64>,
    /// Whether these are the last events of the position.
    pub(crate) ends_place: bool,
    /// Name of events with a position, which is equal for the same events on all nodes.
    pub(crate) name: Option<String>,
}

/// Counters of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueCounts {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) is_stopped: bool,
}

impl Queue {
    /// Returns an empty queue for events of these types. `node` is the name of this node in a
    /// cluster.
    pub fn new(types: EventTypes, node: Option<&str>) -> Arc<Self> {
        Arc::new(Self {
            types,
            node: node.map(Box::from),
            waiting: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Returns the configured types of events.
    pub const fn types(&self) -> EventTypes {
        self.types
    }

    /// Adds an event if its type is configured. `time` is in seconds since 1970. Does not block: if
    /// there is no room, the oldest events are dropped and counted.
    pub fn push(&self, event: Event<'_>, time: u64) {
        if !event.is_of(self.types) {
            return;
        }
        let json = event.to_json(self.node.as_deref(), time).into_boxed_slice();
        let event = WaitingEvent {
            json,
            place: None,
            digest: 0,
        };
        self.push_all([event]);
    }

    /// Adds all edges of a position in the log of a cluster. A request has edges of one position
    /// only, and each node would send it with the same `webhook-id`. `time` is in seconds since
    /// 1970.
    pub fn push_edges<'a>(
        &self,
        place: u64,
        edges: impl IntoIterator<Item = (&'a Id, bool)>,
        time: u64,
    ) {
        if !self.types.presence {
            return;
        }
        let node = self.node.as_deref();
        let edges = edges.into_iter().map(|(id, online)| WaitingEvent {
            json: Event::Presence { id, online }
                .to_json(node, time)
                .into_boxed_slice(),
            place: Some(place),
            digest: digest_of(id, online),
        });
        self.push_all(edges);
    }

    /// Makes this the queue of a node of a cluster. `on_told` is called with each position whose
    /// events the receiver has, or never will have.
    pub fn follow_log(&self, epoch: &str, on_told: Arc<OnTold>) {
        let epoch = epoch.into();
        self.waiting.lock().log = Some(Log { epoch, on_told });
    }

    /// Notes that a batch was accepted or given up.
    pub(crate) fn done(&self, batch: &Batch) {
        let Some(place) = batch.place.filter(|_| batch.ends_place) else {
            return;
        };
        let log = self.waiting.lock().log.clone();
        if let Some(log) = log {
            (log.on_told)(place);
        }
    }

    fn push_all(&self, events: impl IntoIterator<Item = WaitingEvent>) {
        let mut waiting = self.waiting.lock();
        let before = waiting.events.len();
        for event in events {
            if waiting.is_stopped {
                waiting.drop_events(1);
                continue;
            }
            waiting.bytes += event.json.len();
            waiting.events.push_back(event);
            while waiting.events.len() > QUEUED_EVENTS_MAX
                || (waiting.bytes > QUEUED_BYTES_MAX && waiting.events.len() > 1)
            {
                waiting.pop();
                waiting.drop_events(1);
            }
        }
        // The thread sleeps until there is a first event, and then until there is a full batch.
        let now = waiting.events.len();
        let wakes = before == 0 && now > 0 || before < BATCH_EVENTS_MAX && now >= BATCH_EVENTS_MAX;
        drop(waiting);
        if wakes {
            self.changed.notify_all();
        }
    }

    /// Waits for events, and for `delay` for further ones. Returns `None` when the server ends
    /// and there is no event or no time left.
    pub(crate) fn next_batch(&self, delay: Duration) -> Option<Batch> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.flush_until.is_some_and(|end| Instant::now() >= end) {
                return None;
            }
            if !waiting.events.is_empty() {
                break;
            }
            if waiting.flush_until.is_some() {
                return None;
            }
            self.changed.wait(&mut waiting);
        }
        let deadline = Instant::now() + delay;
        let is_gathering = |waiting: &mut Waiting| {
            // The edges of a position are added together.
            let is_complete = (waiting.events.front()).is_some_and(|event| event.place.is_some());
            waiting.flush_until.is_none() && waiting.events.len() < BATCH_EVENTS_MAX && !is_complete
        };
        self.changed
            .wait_while_until(&mut waiting, is_gathering, deadline);
        Some(waiting.take_batch(self.node.as_deref()))
    }

    /// Counts a batch that was not accepted as dropped. The next batch reports that.
    pub(crate) fn give_up(&self, batch: &Batch) {
        let mut waiting = self.waiting.lock();
        waiting.dropped += batch.events;
        waiting.missed += batch.events + batch.missed;
    }

    /// Drops all events, and all that are added until [`Self::resume`].
    pub(crate) fn stop(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_stopped = true;
        waiting.clear();
    }

    /// Accepts events again after [`Self::stop`].
    pub(crate) fn resume(&self) {
        self.waiting.lock().is_stopped = false;
    }

    /// Begins the end of the server: the queued events are sent until `until`.
    pub(crate) fn end(&self, until: Instant) {
        self.waiting.lock().flush_until = Some(until);
        self.changed.notify_all();
    }

    /// Returns the time until which events are sent, if the server ends.
    pub(crate) fn flush_until(&self) -> Option<Instant> {
        self.waiting.lock().flush_until
    }

    /// Waits until `deadline` or until the server ends. Returns whether it ends.
    pub(crate) fn wait_until(&self, deadline: Instant) -> bool {
        let mut waiting = self.waiting.lock();
        let goes_on = |waiting: &mut Waiting| waiting.flush_until.is_none();
        self.changed
            .wait_while_until(&mut waiting, goes_on, deadline);
        waiting.flush_until.is_some()
    }

    /// Waits until `deadline`, or until the time for sending at the end is over.
    pub(crate) fn wait_while_ending(&self, deadline: Instant) {
        let mut waiting = self.waiting.lock();
        let until = waiting
            .flush_until
            .map_or(deadline, |end| end.min(deadline));
        self.changed.wait_while_until(&mut waiting, |_| true, until);
    }

    pub(crate) fn counts(&self) -> QueueCounts {
        let waiting = self.waiting.lock();
        QueueCounts {
            events: waiting.events.len() as u64,
            bytes: waiting.bytes as u64,
            dropped: waiting.dropped,
            is_stopped: waiting.is_stopped,
        }
    }
}

impl Waiting {
    fn pop(&mut self) -> Option<WaitingEvent> {
        let event = self.events.pop_front()?;
        self.bytes -= event.json.len();
        Some(event)
    }

    /// Returns the position of the next event in the log, if it has one.
    fn next_place(&self) -> Option<u64> {
        self.events.front()?.place
    }

    const fn drop_events(&mut self, count: u64) {
        self.missed += count;
        self.dropped += count;
    }

    fn clear(&mut self) {
        let count = self.events.len() as u64;
        self.events = VecDeque::new();
        self.bytes = 0;
        self.drop_events(count);
    }

    fn take_batch(&mut self, node: Option<&str>) -> Batch {
        let mut batch = Batch {
            body: vec![b'['],
            events: 0,
            missed: std::mem::take(&mut self.missed),
            place: self.next_place(),
            ends_place: false,
            name: None,
        };
        let mut digest = 0_u64;
        if batch.missed > 0 {
            let missed = Event::Missed {
                events: batch.missed,
            };
            batch.body.extend(missed.to_json(node, unix_seconds()));
            if batch.place.take().is_some() {
                // A receiver that has these edges already skips the request, so it must not report
                // missed events.
                batch.body.push(b']');
                return batch;
            }
        }
        while batch.events < BATCH_EVENTS_MAX as u64
            && let Some(next) = self.events.front()
            && next.place == batch.place
            && (batch.events == 0 || batch.body.len() + next.json.len() < BATCH_BYTES_MAX)
            && let Some(event) = self.pop()
        {
            if batch.body.len() > 1 {
                batch.body.push(b',');
            }
            batch.body.extend_from_slice(&event.json);
            batch.events += 1;
            digest = digest.wrapping_add(event.digest);
        }
        batch.body.push(b']');
        batch.ends_place = self.next_place() != batch.place;
        batch.name = (self.log.as_ref().zip(batch.place))
            .map(|(log, place)| format!("{}_{place:x}_{digest:016x}", log.epoch));
        if self.events.is_empty() {
            // Frees the memory of a burst.
            self.events.shrink_to(BATCH_EVENTS_MAX);
        }
        batch
    }
}

/// Returns the digest of an edge, which is equal on all nodes.
fn digest_of(id: &Id, online: bool) -> u64 {
    let text = format!("{} {id}", u8::from(online));
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let first = digest.as_ref().first_chunk();
    u64::from_le_bytes(*first.expect("SHA-256 has 32 bytes"))
}

/// Returns the time by the machine's clock, in seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: EventTypes = EventTypes {
        connects: false,
        disconnects: false,
        presence: true,
    };

    /// In whatever order those who add events and the thread that sends them take their steps.
    #[test]
    fn each_event_is_in_one_batch_and_the_thread_ends_when_all_are_sent() {
        scheduled::check(1_000, || {
            let queue = Queue::new(TYPES, None);
            let sent = Arc::new((Mutex::new(0), Condvar::new()));
            let sender = {
                let (queue, sent) = (Arc::clone(&queue), Arc::clone(&sent));
                scheduled::spawn(move || {
                    while let Some(batch) = queue.next_batch(Duration::from_millis(10)) {
                        assert!(batch.events > 0 && batch.missed == 0);
                        *sent.0.lock() += batch.events;
                        sent.1.notify_one();
                    }
                })
            };
            let adder = |_| {
                let queue = Arc::clone(&queue);
                let event = Event::Presence {
                    id: &Id::Integer(7),
                    online: true,
                };
                scheduled::spawn(move || (0..2).for_each(|_| queue.push(event, 0)))
            };
            let adders: Vec<_> = (0..2).map(adder).collect();
            adders.into_iter().for_each(|it| it.join().unwrap());
            let is_idle = scheduled::choose(2) == 0;
            let mut events = sent.0.lock();
            while is_idle && *events < 4 {
                sent.1.wait(&mut events);
            }
            drop(events);
            queue.end(Instant::now() + Duration::from_secs(3600));
            sender.join().unwrap();
            assert_eq!(*sent.0.lock(), 4);
            assert_eq!(queue.counts(), QueueCounts::default());
        });
    }
}
