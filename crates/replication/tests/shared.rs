//! Tests of shared state as a state machine of the log.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use graph::{RowChanges, Rows};
use replication::Position;
use replication::shared::{FOR_EVER, Full, Overflow, Row, SharedRows, TableLimits};
use simulated::Dice;

const LATEST: u8 = 1;
const ALL: u8 = 2;

const TABLES: [TableLimits; 2] = [
    TableLimits {
        table: LATEST,
        rows: 3,
        bytes: 200,
        overflow: Overflow::ForgetFirst,
    },
    TableLimits {
        table: ALL,
        rows: 3,
        bytes: 200,
        overflow: Overflow::Refuse,
    },
];

fn row(until: u64, position: u64, value: &str) -> Row {
    Row {
        until,
        position: Position::from_number(position),
        value: value.as_bytes().into(),
    }
}

fn names(state: &SharedRows, table: u8) -> Vec<&str> {
    let mut names: Vec<_> = state
        .iter(table)
        .map(|(name, _)| std::str::from_utf8(name).unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// Applies changes to the rows on disk.
fn store(stored: &mut Rows, changes: RowChanges) {
    for (name, value) in changes {
        match value {
            Some(value) => drop(stored.insert(name, value)),
            None => drop(stored.remove(&name)),
        }
    }
}

#[test]
fn a_row_expires_by_the_time_of_the_log_which_never_decreases() {
    let mut state = SharedRows::new(&TABLES);
    state.advance(100);
    state.put(ALL, b"a", row(110, 1, "x")).unwrap();
    state.put(ALL, b"b", row(FOR_EVER, 2, "x")).unwrap();
    state.advance(109);
    state.advance(50);
    assert_eq!(state.seconds(), 109);
    assert_eq!(names(&state, ALL), ["a", "b"]);
    state.advance(110);
    assert_eq!(names(&state, ALL), ["b"]);
    // A row that has expired already is not there, nor the one that it replaces.
    state.put(ALL, b"b", row(110, 3, "x")).unwrap();
    assert_eq!(names(&state, ALL), Vec::<&str>::new());
}

#[test]
fn a_full_table_refuses_rows_or_removes_those_that_expire_first() {
    let mut state = SharedRows::new(&TABLES);
    for (position, name) in (1..).zip(["a", "b", "c", "d"]) {
        let until = 200 - position;
        state
            .put(LATEST, name.as_bytes(), row(until, position, "x"))
            .unwrap();
        let put = state.put(ALL, name.as_bytes(), row(until, position, "x"));
        assert_eq!(put, if name == "d" { Err(Full) } else { Ok(()) });
    }
    // The third would have expired first.
    assert_eq!(names(&state, LATEST), ["a", "b", "d"]);
    assert_eq!(names(&state, ALL), ["a", "b", "c"]);
    // A row that replaces another one needs no room for a further row; bytes are bounded as well.
    state.put(ALL, b"a", row(300, 9, "y")).unwrap();
    assert_eq!(
        state.put(ALL, b"a", row(300, 9, &"y".repeat(180))),
        Err(Full)
    );
    assert_eq!(*state.get(ALL, b"a").unwrap().value, *b"y");
    assert_eq!(
        state.put(LATEST, b"z", row(300, 9, &"y".repeat(200))),
        Err(Full)
    );
    state
        .put(LATEST, b"z", row(300, 9, &"y".repeat(150)))
        .unwrap();
    assert_eq!(names(&state, LATEST), ["a", "z"]);
    // Rows with the same expiry are removed in the order of their positions.
    let mut state = SharedRows::new(&TABLES);
    for (position, name) in [(4, "a"), (2, "b"), (3, "c"), (5, "d")] {
        state
            .put(LATEST, name.as_bytes(), row(200, position, "x"))
            .unwrap();
    }
    assert_eq!(names(&state, LATEST), ["a", "c", "d"]);
}

#[test]
fn a_state_continues_from_the_stored_rows_of_any_moment() {
    let mut dice = Dice::new(7);
    let mut below = |bound: u64| dice.within(0..bound);
    let mut state = SharedRows::new(&TABLES);
    let (mut stored, mut again) = (Rows::new(), SharedRows::new(&TABLES));
    for position in 1..5000 {
        let seconds = position / 3 + below(4);
        let (table, name) = ([LATEST, ALL][below(2) as usize], [below(9) as u8]);
        let until = seconds + below(12);
        let value = "v".repeat(below(40) as usize);
        let is_removal = below(5) == 0;
        for state in [&mut state, &mut again] {
            state.advance(seconds);
            match is_removal {
                true => drop(state.remove(table, &name)),
                false => drop(state.put(table, &name, row(until, position, &value))),
            }
        }
        assert!(state.is_same(&again), "{position}");
        if below(7) == 0 {
            store(&mut stored, state.take_changes());
            again = SharedRows::load(&TABLES, &stored).unwrap();
            assert!(state.is_same(&again), "{position}");
        }
    }
    assert!(
        stored.len() <= 7,
        "what is forgotten leaves the disk: {stored:?}"
    );
}

#[test]
fn stored_rows_of_other_tables_are_ignored_and_malformed_ones_refused() {
    let value: Box<[u8]> = [0; 16].into();
    let other: Rows = [([9, 1].into(), value.clone())].into();
    let mut state = SharedRows::load(&TABLES, &other).unwrap();
    assert!(state.take_changes().is_empty());
    for (name, value) in [
        (&[][..], &value[..]),
        (&[0], &value[..7]),
        (&[LATEST, 1], &value[..15]),
    ] {
        let damaged: Rows = [(name.into(), value.into())].into();
        assert!(SharedRows::load(&TABLES, &damaged).is_err(), "{name:?}");
    }
}
