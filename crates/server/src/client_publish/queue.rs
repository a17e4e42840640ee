//! Events of clients that wait for the thread that publishes them.
//!
//! Owns the bound, and the promise that each event is answered once.

use std::collections::VecDeque;
use std::sync::Arc;

use reactor::{Mailbox, SlotKey};
use router::Event;

use super::{EventPublisher, PublishError};
use crate::limits::{
    CLIENT_EVENT_BYTES, CLIENT_EVENTS_BYTES_MAX, CLIENT_GROUP_BYTES, CLIENT_GROUP_EVENTS_MAX,
};
use crate::mail::{Mail, Published};
use crate::sync::{Condvar, Mutex};

/// Events that are not answered yet: those that wait, and those that are being published.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Event, Answer)>,
    /// Number and bytes of all events that are not answered.
    events: usize,
    bytes: usize,
    is_closed: bool,
}

/// Answer that a client is owed. If it is dropped, the client is told that nothing is known.
pub(crate) struct Answer {
    mailbox: Arc<Mailbox<Mail>>,
    key: SlotKey,
    reference: Option<Box<str>>,
    /// Where the event counts until it is answered, and for how many bytes.
    counted: Option<(Arc<Queue>, usize)>,
}

impl Answer {
    /// Makes the answer for a session, to be sent to its worker's mailbox. `reference` is what the
    /// client calls its message.
    pub(crate) const fn new(
        mailbox: Arc<Mailbox<Mail>>,
        key: SlotKey,
        reference: Option<Box<str>>,
    ) -> Self {
        Self {
            mailbox,
            key,
            reference,
            counted: None,
        }
    }

    /// Sends the position of the event, or the reason why there is none.
    pub(crate) fn send(mut self, result: Result<u64, PublishError>) {
        self.give(result);
    }

    fn give(&mut self, result: Result<u64, PublishError>) {
        let Some((queue, bytes)) = self.counted.take() else {
            return;
        };
        let mut state = queue.state.lock();
        state.events -= 1;
        state.bytes -= bytes;
        drop(state);
        self.mailbox.insert(Mail::Published(Published {
            key: self.key,
            reference: self.reference.take(),
            result,
        }));
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.give(Err(PublishError::Unknown));
    }
}

impl Queue {
    /// Appends an event, unless there are too many. Returns whether it was taken; only then its
    /// answer is sent.
    pub(crate) fn push(
        self: &Arc<Self>,
        event: Event,
        mut answer: Answer,
        events_max: usize,
    ) -> bool {
        let bytes = CLIENT_EVENT_BYTES + event.payload.bytes().len();
        let mut state = self.state.lock();
        if state.is_closed
            || state.events == events_max
            || state.bytes + bytes > CLIENT_EVENTS_BYTES_MAX
        {
            return false;
        }
        state.events += 1;
        state.bytes += bytes;
        answer.counted = Some((Arc::clone(self), bytes));
        state.waiting.push_back((event, answer));
        drop(state);
        self.filled.notify_one();
        true
    }

    /// Takes the events that have waited longest, at least one and as many as are published
    /// together. `None` when the queue is closed and empty.
    pub(crate) fn take(&self) -> Option<Vec<(Event, Answer)>> {
        let mut state = self.state.lock();
        while state.waiting.is_empty() {
            if state.is_closed {
                return None;
            }
            self.filled.wait(&mut state);
        }
        let mut bytes = 0;
        let mut taken = Vec::new();
        while taken.len() < CLIENT_GROUP_EVENTS_MAX
            && bytes < CLIENT_GROUP_BYTES
            && let Some(first) = state.waiting.pop_front()
        {
            bytes += first.0.payload.bytes().len();
            taken.push(first);
        }
        Some(taken)
    }

    /// Takes no further events.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.filled.notify_one();
    }
}

/// Publishes what comes until the queue is closed and empty.
pub(super) fn run(queue: &Queue, publisher: &dyn EventPublisher) {
    while let Some(taken) = queue.take() {
        let (events, answers): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        let done = move |result: Result<Vec<u64>, PublishError>| match result {
            Ok(positions) => {
                for (answer, position) in answers.into_iter().zip(positions) {
                    answer.send(Ok(position));
                }
            }
            Err(error) => {
                for answer in answers {
                    answer.send(Err(error));
                }
            }
        };
        publisher.publish(events, Box::new(done));
    }
}

#[cfg(test)]
mod tests {
    use graph::Id;
    use router::Payload;

    use super::*;
    use crate::post::MAILBOX_WEIGHT_MAX;

    fn event() -> Event {
        Event {
            subject: Id::from(7),
            event_type: None,
            payload: Payload::text("x".into()),
        }
    }

    /// In whatever order workers and the thread that publishes take their steps.
    #[test]
    fn each_event_that_was_taken_is_answered_once_and_the_thread_ends() {
        scheduled::check(1_000, || {
            let queue = Arc::<Queue>::default();
            let mailbox = Arc::new(Mailbox::new(MAILBOX_WEIGHT_MAX).expect("an eventfd"));
            let publisher = {
                let queue = Arc::clone(&queue);
                scheduled::spawn(move || {
                    while let Some(taken) = queue.take() {
                        assert!(!taken.is_empty());
                        for (nth, (_, answer)) in taken.into_iter().enumerate() {
                            // An answer that is dropped is one, too.
                            if nth % 2 == 0 {
                                answer.send(Ok(1));
                            }
                        }
                    }
                })
            };
            let worker = |number| {
                let (queue, mailbox) = (Arc::clone(&queue), Arc::clone(&mailbox));
                let key = SlotKey {
                    index: number,
                    generation: 0,
                };
                scheduled::spawn(move || {
                    let answer = || Answer::new(Arc::clone(&mailbox), key, None);
                    (0..2).filter(|_| queue.push(event(), answer(), 5)).count()
                })
            };
            let workers: Vec<_> = (0..2).map(worker).collect();
            let closes_early = scheduled::choose(2) == 0;
            if closes_early {
                queue.close();
            }
            let taken: usize = workers.into_iter().map(|it| it.join().unwrap()).sum();
            queue.close();
            publisher.join().unwrap();
            let answers = mailbox.take().len();
            assert_eq!(answers, taken, "answers");
            assert!(closes_early || taken == 4);
            let state = queue.state.lock();
            assert_eq!((state.events, state.bytes), (0, 0), "what counts");
        });
    }
}
