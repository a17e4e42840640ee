//! Laws of the directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use graph::Key;
use reactor::SlotKey;
use scheduled::{Mutex, check, spawn};

use super::SCHEDULES;
use crate::directory::{Directory, Lookups, Move};
use crate::session::{SessionRef, WorkerId};

fn session(worker: u16, index: u32) -> SessionRef {
    let generation = 0;
    SessionRef::new(WorkerId(worker), SlotKey { index, generation })
}

/// An id that always has a session, and one whose sessions come and go. They are neighbours, in one
/// block.
const STAYS: u32 = 7;
const MOVES: u32 = 8;

fn key(number: u32) -> Key {
    Key::from_cursor(number)
}

/// A reader that sees a login or a logout in part finds a session twice, or loses one that stays.
#[test]
fn a_publisher_finds_who_is_there_once_whoever_comes_and_goes_beside_it() {
    check(SCHEDULES, || {
        let directory = Arc::new(Directory::new());
        directory.add(key(STAYS), session(0, 0));
        directory.add(key(MOVES), session(0, 1));
        let workers = [1, 2].map(|worker| {
            let directory = Arc::clone(&directory);
            spawn(move || {
                // The second session of an id begins a set, which its last but one ends.
                directory.add(key(MOVES), session(worker, 0));
                directory.add(key(STAYS), session(worker, 1));
                directory.remove(key(MOVES), session(worker, 0));
                directory.remove(key(STAYS), session(worker, 1));
            })
        });
        for _ in 0..2 {
            let mut found = Vec::new();
            let online = directory.sessions(&[key(STAYS), key(MOVES)], &mut found);
            let mut alone = Vec::new();
            let keys = [key(MOVES), key(STAYS)];
            directory.each_online_of(&keys, &mut Lookups::default(), |_, it| {
                it.append_to(&mut alone)
            });
            for mut found in [found, alone] {
                found.sort_unstable();
                assert!(found.is_sorted_by(|a, b| a < b), "twice: {found:?}");
                for stays in [session(0, 0), session(0, 1)] {
                    assert!(found.contains(&stays), "{stays:?} is not in {found:?}");
                }
            }
            assert_eq!((online, directory.online()), (2, 2));
        }
        for worker in workers {
            worker.join().expect("no panic");
        }
        directory.remove(key(STAYS), session(0, 0));
        directory.remove(key(MOVES), session(0, 1));
        assert!(directory.is_empty());
    });
}

/// References to keys, and what the last move said of each.
#[derive(Default)]
struct Seen {
    references: BTreeMap<Key, i32>,
    online: BTreeMap<Key, bool>,
}

impl Seen {
    fn hold(&mut self, key: Key) {
        *self.references.entry(key).or_default() += 1;
    }

    fn release(&mut self, key: Key) {
        let left = self.references.entry(key).or_default();
        *left -= 1;
        assert!(*left >= 0, "{key:?} was released more often than held");
    }

    fn note(&mut self, moves: Vec<Move>) {
        for it in moves {
            assert!(
                it.online || it.is_held,
                "it may be forgotten before: {it:?}"
            );
            self.online.insert(it.key, it.online);
            if it.is_held {
                self.release(it.key);
            }
        }
    }
}

/// Takes moves, as the presence thread alone does.
fn take_moves(directory: &Directory, seen: &Mutex<Seen>) {
    let mut moves = Vec::new();
    directory.take_moves(&mut moves);
    seen.lock().note(moves);
}

#[test]
fn the_last_move_of_an_id_says_how_it_is_and_each_reference_is_given_back_once() {
    check(SCHEDULES, || {
        let mut directory = Directory::new();
        directory.keep_moves();
        let directory = Arc::new(directory);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let workers = [1, 2].map(|worker| {
            let (directory, seen) = (Arc::clone(&directory), Arc::clone(&seen));
            spawn(move || {
                // As the router logs in and out.
                let login = |number| {
                    seen.lock().hold(key(number));
                    directory.add(key(number), session(worker, 0));
                };
                let logout = |number| {
                    if !directory.remove(key(number), session(worker, 0)).is_kept {
                        seen.lock().release(key(number));
                    }
                };
                login(MOVES);
                logout(MOVES);
                login(MOVES);
                login(STAYS);
                if worker == 1 {
                    logout(MOVES);
                    logout(STAYS);
                }
            })
        });
        let presence = {
            let (directory, seen) = (Arc::clone(&directory), Arc::clone(&seen));
            spawn(move || (0..2).for_each(|_| take_moves(&directory, &seen)))
        };
        for worker in workers {
            worker.join().expect("no panic");
        }
        presence.join().expect("no panic");
        take_moves(&directory, &seen);
        let left = [STAYS, MOVES].map(key);
        for key in left {
            assert_eq!(seen.lock().online.get(&key), Some(&true));
            assert_eq!(seen.lock().references.get(&key), Some(&1));
            if !directory.remove(key, session(2, 0)).is_kept {
                seen.lock().release(key);
            }
        }
        take_moves(&directory, &seen);
        for key in left {
            assert_eq!(seen.lock().online.get(&key), Some(&false));
            assert_eq!(seen.lock().references.get(&key), Some(&0));
        }
        assert!(directory.is_empty());
    });
}
