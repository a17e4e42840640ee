//! Event ids that a reconnecting client has received: tells repeated events from new ones in a few
//! bytes of memory.
//!
//! Ids carry the position up to which everything was sent
//! (`<epoch>-<position>-<complete>`). That number stands for all events up to it. Only events
//! beyond it are remembered one by one, and those are few.

use crate::decode::event_id::EventId;

/// Events beyond `complete` that are remembered. A server under load sends a few thousand small
/// events while it delivers a large one to a million sessions. Beyond this bound the oldest are
/// forgotten, and a repeat of one would be taken for new.
const BEYOND_MAX: usize = 65_536;

/// What a client has received. Lives as long as the client, over all its connections.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// Epoch of the last id; 0 before the first.
    epoch: u32,
    /// Everything up to this position was sent to the client, by the ids that it has seen.
    complete: u64,
    /// The highest position received.
    highest: u64,
    /// `highest` when the current connection was opened.
    highest_before: u64,
    /// Sequence and `complete` of the last id.
    last: Option<(u64, u64)>,
    /// Received events beyond `complete`, ascending.
    #[expect(
        clippy::box_collection,
        reason = "each of a million clients pays for a pointer only"
    )]
    beyond: Option<Box<Vec<u64>>>,
}

/// Whether an event is new to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It was not received before.
    New,
    /// It was received before, on this or an earlier connection.
    Repeat,
    /// It was not received before, although an earlier id said that everything up to it was sent: a
    /// client that had reconnected in between would have missed it.
    Late,
}

impl Received {
    /// Notes that a new connection is open.
    pub fn reconnect(&mut self) {
        self.highest_before = self.highest;
    }

    /// Forgets everything: positions begin again, or the server does not know the cursor.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Returns the last id received.
    pub fn last(&self) -> Option<EventId> {
        let (position, complete) = self.last?;
        Some(EventId {
            epoch: self.epoch,
            position,
            complete,
        })
    }

    /// Notes the id of an event, and returns whether it is new.
    pub fn event(&mut self, id: EventId) -> Arrival {
        self.enter(id.epoch);
        let beyond = self.beyond.as_deref();
        let arrival = if beyond.is_some_and(|all| all.binary_search(&id.position).is_ok()) {
            Arrival::Repeat
        } else if id.position > self.complete {
            Arrival::New
        } else if id.position <= self.highest_before || id.position == self.highest {
            Arrival::Repeat
        } else {
            Arrival::Late
        };
        self.highest = self.highest.max(id.position);
        self.advance(id);
        if arrival == Arrival::New && id.position > self.complete {
            self.remember(id.position);
        }
        arrival
    }

    /// Notes an id that came without an event.
    pub fn cursor(&mut self, id: EventId) {
        self.enter(id.epoch);
        self.advance(id);
    }

    fn enter(&mut self, epoch: u32) {
        if self.epoch != epoch {
            self.forget();
            self.epoch = epoch;
        }
    }

    fn advance(&mut self, id: EventId) {
        self.last = Some((id.position, id.complete));
        if id.complete <= self.complete {
            return;
        }
        self.complete = id.complete;
        if let Some(beyond) = &mut self.beyond {
            let known = beyond.partition_point(|&position| position <= id.complete);
            beyond.drain(..known);
            if beyond.is_empty() {
                self.beyond = None;
            }
        }
    }

    fn remember(&mut self, position: u64) {
        let beyond = self.beyond.get_or_insert_default();
        let at = beyond.partition_point(|&known| known < position);
        beyond.insert(at, position);
        if beyond.len() > BEYOND_MAX {
            beyond.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Arrival::{Late, New, Repeat};

    fn arrivals(received: &mut Received, ids: &[&str]) -> Vec<Arrival> {
        let ids = ids.iter().map(|id| EventId::of(id).unwrap());
        ids.map(|id| received.event(id)).collect()
    }

    #[test]
    fn what_comes_once_is_new() {
        let mut received = Received::default();
        assert_eq!(arrivals(&mut received, &["k-1", "k-5", "k-6"]), [New; 3]);
        assert_eq!(arrivals(&mut received, &["k-6"]), [Repeat]);
        received.reconnect();
        let again = arrivals(&mut received, &["k-5", "k-6", "k-9"]);
        assert_eq!(again, [Repeat, Repeat, New]);
    }

    #[test]
    fn an_event_that_was_overtaken_is_new_and_its_overtaker_a_repeat() {
        let mut received = Received::default();
        let before = arrivals(&mut received, &["k-98", "k-101-99", "k-103-99"]);
        assert_eq!(before, [New; 3]);
        received.reconnect();
        let after = arrivals(
            &mut received,
            &["k-100", "k-101", "k-102", "k-103", "k-104"],
        );
        assert_eq!(after, [New, Repeat, New, Repeat, New]);
        assert!(received.beyond.is_none());
    }

    #[test]
    fn an_event_below_what_was_said_to_be_complete_is_late() {
        let mut received = Received::default();
        assert_eq!(
            arrivals(&mut received, &["k-98", "k-101", "k-100"]),
            [New, New, Late]
        );
        let mut received = Received::default();
        received.cursor(EventId::of("k-50").unwrap());
        assert_eq!(arrivals(&mut received, &["k-50", "k-51"]), [Late, New]);
    }

    #[test]
    fn the_last_id_is_what_the_server_is_told() {
        let mut received = Received::default();
        assert_eq!(received.last(), None);
        received.event(EventId::of("k-101-99").unwrap());
        let last = received.last().unwrap();
        assert_eq!((last.position, last.complete), (101, 99));
        received.cursor(EventId::of("k-200").unwrap());
        assert_eq!(received.last().unwrap().complete, 200);
        assert!(received.beyond.is_none());
    }

    #[test]
    fn another_epoch_begins_anew() {
        let mut received = Received::default();
        arrivals(&mut received, &["k-98", "k-101-99"]);
        received.reconnect();
        assert_eq!(
            arrivals(&mut received, &["m-1", "m-2", "m-2"]),
            [New, New, Repeat]
        );
    }
}
