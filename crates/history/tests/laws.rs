//! Comparison of a history with a model that keeps all events.

use std::collections::BTreeSet;

use graph::Key;
use history::{Cursor, Entry, Followed, Gap, History, Limits, Missed, Reach};
use proptest::prelude::*;

const EPOCH: &str = "e";
const SUBJECTS: u32 = 12;

/// Event of the model.
#[derive(Debug, Clone)]
struct Event {
    position: u64,
    key: u32,
    reach: Reach,
    seconds: u32,
    event_type: String,
    payload: Vec<u8>,
}

impl Event {
    fn entry(&self) -> Entry<'_> {
        Entry {
            position: self.position,
            key: Key::from_cursor(self.key),
            reach: self.reach,
            tag: (self.position % 128) as u8,
            event_type: &self.event_type,
            payload: &self.payload,
        }
    }
}

/// A history, and a model of it.
struct World {
    history: History,
    limits: Limits,
    all: Vec<Event>,
    held: BTreeSet<u32>,
}

impl World {
    fn new(limits: Limits) -> Self {
        Self {
            history: History::new(limits, 0),
            limits,
            all: Vec::new(),
            held: BTreeSet::new(),
        }
    }

    fn append(&mut self, event: Event) {
        let mut released = Vec::new();
        let is_new = self
            .history
            .append(&event.entry(), event.seconds, &mut released);
        let key = event.key;
        self.all.push(event);
        for key in released {
            assert!(self.held.remove(&key.number()), "{key:?} was not held");
        }
        if is_new {
            assert!(self.held.insert(key), "{key} was held already");
        }
        self.check();
    }

    /// Returns the stored events, which are always the latest ones.
    fn stored(&self) -> &[Event] {
        &self.all[self.all.len() - self.history.events()..]
    }

    fn check(&self) {
        assert!(
            self.history.bytes() <= self.limits.bytes,
            "{}",
            self.history.bytes()
        );
        let keys: BTreeSet<u32> = self.stored().iter().map(|event| event.key).collect();
        assert_eq!(
            self.held, keys,
            "the keys of stored events are held, and no others"
        );
        if let (Some(age_max), Some(last)) = (self.limits.age_seconds, self.all.last()) {
            let oldest = self
                .stored()
                .first()
                .map_or(last.seconds, |event| event.seconds);
            assert!(last.seconds - oldest <= age_max);
        }
    }

    fn check_missed(&self, after: u64, followed: &[(u32, u64, bool)], count_max: usize) {
        let cursor = Cursor::complete(EPOCH, after);
        let first_stored = self.stored().first().map(|event| event.position);
        let mut lost = self.all.iter().filter(|event| {
            event.position > after && first_stored.is_none_or(|first| event.position < first)
        });
        let expected = match lost.next() {
            _ if after > self.history.head() => Some(Gap::Unknown),
            Some(_) => Some(Gap::Expired),
            None => None,
        };
        assert_eq!(self.history.gap(EPOCH, cursor), expected);

        let concerns = |event: &&Event| {
            followed.iter().any(|&(key, since, is_own)| {
                event.key == key
                    && event.position > after.max(since)
                    && (is_own || event.reach == Reach::Subscribers)
            })
        };
        let model: Vec<&Event> = self.stored().iter().filter(concerns).collect();
        let query = followed.iter().map(|&(key, since, is_own)| Followed {
            key: Key::from_cursor(key),
            after: after.max(since),
            is_own,
        });
        let mut missed = Vec::new();
        let more = self
            .history
            .missed(query.clone(), u64::MAX, count_max, &mut missed);
        assert_eq!(more, model.len() > count_max);
        assert_eq!(missed.len(), model.len().min(count_max));
        let mut latest = Vec::new();
        let last = self.history.head().saturating_sub(count_max as u64 % 3);
        self.history
            .latest(query.clone(), last, count_max, &mut latest);
        let positions =
            |found: &[Missed]| -> Vec<u64> { found.iter().map(|missed| missed.position).collect() };
        let in_time = model.iter().filter(|event| event.position <= last);
        let in_time: Vec<_> = in_time.map(|event| event.position).collect();
        let kept = in_time.len().saturating_sub(count_max);
        assert_eq!(positions(&latest), in_time[kept..]);

        for (event, &Missed { position, place }) in model.into_iter().zip(&missed) {
            assert_eq!(position, event.position);
            let stored = self.history.get(place).expect("it is stored");
            assert_eq!(stored.entry, event.entry());
            assert_eq!(stored.seconds, event.seconds);
        }
    }
}

fn event() -> impl Strategy<Value = (u32, bool, u64, u32, String, usize)> {
    let payload = prop_oneof![8 => 0..300_usize, 1 => 3000..6000_usize, 1 => Just(20_000)];
    (
        0..SUBJECTS,
        any::<bool>(),
        1..5_u64,
        0..3_u32,
        "[a-z]{0,9}",
        payload,
    )
}

fn followed() -> impl Strategy<Value = Vec<(u32, u64, bool)>> {
    let followed = proptest::collection::btree_map(0..SUBJECTS, (0..400_u64, any::<bool>()), 0..6);
    followed.prop_map(|map| {
        map.into_iter()
            .map(|(key, (since, is_own))| (key, since, is_own))
            .collect()
    })
}

proptest! {
    #[test]
    fn a_session_finds_all_missed_events_or_a_gap(
        kilobytes in 16..96_usize,
        age_seconds in proptest::option::of(0..60_u32),
        events in proptest::collection::vec(event(), 1..300),
        queries in proptest::collection::vec((0..1000_u64, followed(), 0..40_usize), 1..20),
    ) {
        let bytes = kilobytes << 10;
        let mut world = World::new(Limits { bytes, age_seconds });
        let (mut position, mut seconds) = (0, 0);
        let queries_every = events.len() / queries.len() + 1;
        let mut queries = queries.into_iter();
        for (number, event) in events.into_iter().enumerate() {
            let (key, is_sent, step, pause, event_type, payload) = event;
            position += step;
            seconds += pause;
            let reach = if is_sent { Reach::Subject } else { Reach::Subscribers };
            let payload = vec![position as u8; payload];
            world.append(Event { position, key, reach, seconds, event_type, payload });
            if number % queries_every == 0 && let Some((after, followed, count)) = queries.next() {
                world.check_missed(after, &followed, count);
            }
        }
    }
}

fn plain(position: u64, key: u32, payload: usize) -> Event {
    Event {
        position,
        key,
        reach: Reach::Subscribers,
        seconds: 0,
        event_type: String::new(),
        payload: vec![b'x'; payload],
    }
}

#[test]
fn a_full_history_removes_about_one_event_for_each_new_one() {
    let mut world = World::new(Limits {
        bytes: 1 << 20,
        age_seconds: None,
    });
    let mut released = Vec::new();
    let (mut before, mut is_full) = (0, false);
    for position in 1..20_000 {
        let event = plain(position, position as u32 % 5, 100);
        world.history.append(&event.entry(), 0, &mut released);
        let now = world.history.events();
        is_full |= now <= before;
        assert!(
            !is_full || now + 2 > before,
            "{before} to {now} at {position}"
        );
        before = now;
    }
    assert!(
        is_full && before > 6000,
        "{before} events of 123 bytes in a MiB"
    );
}

#[test]
fn an_event_too_large_for_the_history_is_a_gap_and_no_hole() {
    let mut world = World::new(Limits {
        bytes: 1 << 17,
        age_seconds: None,
    });
    world.append(plain(1, 1, 10));
    world.append(plain(2, 1, 1 << 18));
    assert_eq!(world.history.events(), 0);
    world.append(plain(3, 1, 10));
    let gap = |position| world.history.gap(EPOCH, Cursor::complete(EPOCH, position));
    assert_eq!(gap(1), Some(Gap::Expired), "the client may have missed 2");
    assert_eq!(gap(2), None);
    assert_eq!(gap(3), None);
    assert_eq!(gap(4), Some(Gap::Unknown));
}

#[test]
fn a_history_of_no_bytes_stores_nothing_and_reports_a_gap() {
    let mut world = World::new(Limits {
        bytes: 0,
        age_seconds: None,
    });
    world.append(plain(1, 1, 10));
    assert_eq!((world.history.events(), world.history.bytes()), (0, 0));
    let cursor = |position| world.history.gap(EPOCH, Cursor::complete(EPOCH, position));
    assert_eq!((cursor(0), cursor(1)), (Some(Gap::Expired), None));
}

#[test]
fn a_skipped_event_is_no_gap() {
    let mut world = World::new(Limits {
        bytes: 1 << 17,
        age_seconds: None,
    });
    world.append(plain(1, 1, 10));
    world.history.skip(2);
    world.append(plain(3, 1, 10));
    let gap = world.history.gap(EPOCH, Cursor::complete(EPOCH, 1));
    assert_eq!((gap, world.history.head()), (None, 3));
}

#[test]
fn an_event_that_could_not_be_stored_is_a_gap() {
    let bytes = 1 << 17;
    let mut world = World::new(Limits {
        bytes,
        age_seconds: None,
    });
    world.append(plain(1, 1, 10));
    world.history.lose(2);
    world.append(plain(3, 1, 10));
    let gap = |position| world.history.gap(EPOCH, Cursor::complete(EPOCH, position));
    assert_eq!((gap(1), gap(2)), (Some(Gap::Expired), None));
}

// A regression: when the oldest event was removed, a later lost one was forgotten, so a client
// between the two was told that it had missed nothing.
#[test]
fn a_lost_event_stays_a_gap_when_older_events_leave() {
    let mut world = World::new(Limits {
        bytes: 1 << 17,
        age_seconds: Some(10),
    });
    world.append(plain(1, 1, 10));
    world.append(plain(2, 1, 10));
    world.history.lose(3);
    let mut later = plain(4, 1, 10);
    later.seconds = 11;
    world.append(later);
    assert_eq!(world.history.events(), 1);
    let gap = |position| world.history.gap(EPOCH, Cursor::complete(EPOCH, position));
    assert_eq!((gap(2), gap(3)), (Some(Gap::Expired), None));
}

#[test]
fn only_cursors_of_abandoned_positions_are_a_gap() {
    let mut world = World::new(Limits {
        bytes: 1 << 17,
        age_seconds: None,
    });
    world.append(plain(1, 1, 10));
    world.history.abandon(100);
    world.append(plain(101, 1, 10));
    world.history.abandon(200);
    world.history.abandon(201);
    let gap = |position| world.history.gap(EPOCH, Cursor::complete(EPOCH, position));
    for position in [0, 1, 100, 101, 200, 201] {
        assert_eq!(gap(position), None, "{position}");
    }
    for position in [2, 50, 99, 102, 199] {
        assert_eq!(gap(position), Some(Gap::Restart), "{position}");
    }
    let partial = Cursor {
        complete: 1,
        ..Cursor::complete(EPOCH, 50)
    };
    assert_eq!(world.history.gap(EPOCH, partial), Some(Gap::Restart));
    assert_eq!(gap(202), Some(Gap::Unknown));
}

#[test]
fn abandoned_positions_are_bounded_and_the_oldest_become_a_gap() {
    let mut world = World::new(Limits {
        bytes: 1 << 17,
        age_seconds: None,
    });
    let last = 10 * 2000;
    (1..=2000).for_each(|restart| world.history.abandon(10 * restart));
    let gap = |position| world.history.gap(EPOCH, Cursor::complete(EPOCH, position));
    assert_eq!(
        (gap(5), gap(last - 5)),
        (Some(Gap::Expired), Some(Gap::Restart))
    );
    assert_eq!((gap(0), gap(last)), (Some(Gap::Expired), None));
}

#[test]
fn a_cursor_of_another_epoch_is_a_gap() {
    let history = History::new(
        Limits {
            bytes: 1 << 17,
            age_seconds: None,
        },
        7,
    );
    let gap = |cursor: &str| history.gap(EPOCH, cursor.try_into().unwrap());
    assert_eq!(gap("other-7"), Some(Gap::Restart));
    assert_eq!(gap("f-7"), Some(Gap::Restart));
    assert_eq!(gap("e-7"), None);
    assert_eq!(
        gap("e-6"),
        Some(Gap::Expired),
        "nothing is known of what was before the start"
    );
    assert_eq!(
        gap("e-7-6"),
        Some(Gap::Expired),
        "7 was received, and perhaps not all before it"
    );
}

#[test]
fn events_are_found_across_large_distances_of_positions() {
    let mut world = World::new(Limits {
        bytes: 1 << 17,
        age_seconds: None,
    });
    let positions = [1, 1 << 32, 1 << 39, (1 << 40) + 1, (1 << 40) + 3, 1 << 62];
    for position in positions {
        world.append(plain(position, 1, 10));
        world.history.advance(position + 1);
    }
    world.check_missed(0, &[(1, 0, true)], 100);
    world.check_missed(1 << 40, &[(1, 0, true)], 100);
    assert_eq!(world.history.head(), (1 << 62) + 1);
}

#[test]
fn events_after_the_last_requested_one_are_left_out() {
    let mut world = World::new(Limits {
        bytes: 1 << 17,
        age_seconds: None,
    });
    (1..=9).for_each(|position| world.append(plain(position, 1, 10)));
    let followed = Followed {
        key: Key::from_cursor(1),
        after: 2,
        is_own: true,
    };
    let mut missed = Vec::new();
    assert!(!world.history.missed([followed], 5, 100, &mut missed));
    let positions: Vec<_> = missed.iter().map(|missed| missed.position).collect();
    assert_eq!(positions, [3, 4, 5]);
}

#[test]
fn rewinding_returns_the_last_events_of_each_subject_in_order() {
    let mut world = World::new(Limits {
        bytes: 1 << 17,
        age_seconds: None,
    });
    (1..=12).for_each(|position| world.append(plain(position, position as u32 % 3, 10)));
    let mut sent = plain(13, 1, 10);
    sent.reach = Reach::Subject;
    world.append(sent);
    let followed = |key, is_own| Followed {
        key: Key::from_cursor(key),
        after: 0,
        is_own,
    };
    let rewind = |after, last, count_max| {
        let query = [(1, false), (2, true)].map(|(key, is_own)| Followed {
            after,
            ..followed(key, is_own)
        });
        let mut found = Vec::new();
        let more = world.history.rewind(query, last, 2, count_max, &mut found);
        let positions: Vec<_> = found.iter().map(|found| found.position).collect();
        (positions, more)
    };
    assert_eq!(rewind(0, u64::MAX, 9), (vec![7, 8, 10, 11], false));
    assert_eq!(rewind(0, u64::MAX, 3), (vec![7, 8, 10], true));
    // A client that has the first of them gets the others, whatever was appended since.
    assert_eq!(rewind(8, u64::MAX, 9), (vec![10, 11], false));
    assert_eq!(rewind(7, 10, 9), (vec![8, 10], false));
    assert_eq!(rewind(0, 10, 9), (vec![5, 7, 8, 10], false));
}

#[test]
fn a_search_for_the_latest_events_finds_them_among_many() {
    let mut world = World::new(Limits {
        bytes: 1 << 22,
        age_seconds: None,
    });
    (1..=9000).for_each(|position| world.append(plain(position, position as u32 % 5, 10)));
    let followed = [4, 1, 2].map(|key| Followed {
        key: Key::from_cursor(key),
        after: 0,
        is_own: false,
    });
    let mut found = Vec::new();
    world.history.latest(followed, 8000, 1000, &mut found);
    let positions: Vec<_> = found.iter().map(|found| found.position).collect();
    let model = (1..=8000_u64).filter(|position| matches!(position % 5, 4 | 1 | 2));
    let model: Vec<_> = model.collect();
    assert_eq!(positions, model[model.len() - 1000..]);
}
