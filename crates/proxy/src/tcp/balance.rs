//! Which backend a connection gets.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use reactor::Tick;

use crate::tcp::front::Front;
use crate::tcp::settings::Balance;

/// Backends tried for a connection, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tried(u64);

impl Tried {
    pub(crate) const fn add(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    const fn has(self, index: usize) -> bool {
        self.0 & 1 << index != 0
    }

    pub(crate) const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

/// The index of the backend that a connection from `source` gets. Those left alone for their failures
/// are taken when there are no others, those that a check has found unwell never.
pub(crate) fn choose(
    front: &Front,
    source: Option<IpAddr>,
    tried: Tried,
    now: Tick,
) -> Option<usize> {
    choose_among(front, source, |index| {
        let backend = &front.backends[index];
        !tried.has(index) && backend.is_well() && !backend.is_ejected(now)
    })
    .or_else(|| {
        choose_among(front, source, |index| {
            !tried.has(index) && front.backends[index].is_well()
        })
    })
}

fn choose_among(
    front: &Front,
    source: Option<IpAddr>,
    usable: impl Fn(usize) -> bool,
) -> Option<usize> {
    let among = Among::of((0..front.backends.len()).filter(|&index| usable(index)));
    match front.settings.balance {
        Balance::RoundRobin => among.in_turn(front),
        Balance::Least => {
            // Others change these counts meanwhile: each is read once.
            let mut least = (u32::MAX, Among(0));
            for index in among.iter() {
                let load = front.backends[index].connections.load(Ordering::Relaxed);
                match load.cmp(&least.0) {
                    Less => least = (load, Among(1 << index)),
                    Equal => least.1.0 |= 1 << index,
                    Greater => {}
                }
            }
            least.1.in_turn(front)
        }
        // Rendezvous hashing (Thaler and Ravishankar 1998): who leaves takes only its own sources
        // with it.
        Balance::Source => among.iter().max_by_key(|&index| {
            let mut hasher = DefaultHasher::new();
            (source, front.backends[index].address).hash(&mut hasher);
            hasher.finish()
        }),
    }
}

/// Backends as bits, of which one is to be taken.
#[derive(Debug, Clone, Copy)]
struct Among(u64);

impl Among {
    fn of(indexes: impl Iterator<Item = usize>) -> Self {
        Self(indexes.fold(0, |bits, index| bits | 1 << index))
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        iter::from_fn(move || {
            let lowest = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(lowest)
        })
    }

    /// The one whose turn it is among these, so that those of one who is left out fall to all others
    /// alike, and not to its neighbour.
    fn in_turn(self, front: &Front) -> Option<usize> {
        let count = self.0.count_ones() as usize;
        if count == 0 {
            return None;
        }
        let turn = front.turn.fetch_add(1, Ordering::Relaxed);
        self.iter().nth(turn % count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::SocketAddr;

    use super::*;
    use crate::tcp::settings::{BackendAddress, ListenerSettings};

    fn front(balance: Balance, count: u8) -> Front {
        let address: SocketAddr = "127.0.0.1:80".parse().expect("valid");
        let backends = (1..=count).map(|number| BackendAddress {
            name: number.to_string(),
            address: SocketAddr::from(([127, 0, 0, number], 80)),
        });
        let mut settings = ListenerSettings::new(address, backends.collect());
        settings.balance = balance;
        Front::new(address, settings, None)
    }

    const NOW: Tick = Tick(0);

    #[test]
    fn each_in_turn_leaves_nobody_out() {
        let front = front(Balance::RoundRobin, 3);
        let chosen: Vec<_> = (0..6)
            .map(|_| choose(&front, None, Tried::default(), NOW))
            .collect();
        let indexes = [0, 1, 2, 0, 1, 2].map(Some);
        assert_eq!(chosen, indexes);
    }

    #[test]
    fn the_one_with_the_fewest_is_taken_and_equals_take_turns() {
        let front = front(Balance::Least, 3);
        let all: HashSet<_> = (0..3)
            .map(|_| choose(&front, None, Tried::default(), NOW))
            .collect();
        assert_eq!(all.len(), 3);
        front.backends[0].connections.store(2, Ordering::Relaxed);
        front.backends[1].connections.store(1, Ordering::Relaxed);
        front.backends[2].connections.store(2, Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(choose(&front, None, Tried::default(), NOW), Some(1));
        }
    }

    #[test]
    fn the_share_of_one_who_is_out_falls_to_all_others_alike() {
        for balance in [Balance::RoundRobin, Balance::Least] {
            let front = front(balance, 4);
            front.backends[1].set_well(false);
            let mut counts = [0; 4];
            for _ in 0..300 {
                let chosen = choose(&front, None, Tried::default(), NOW);
                counts[chosen.expect("three are well")] += 1;
            }
            assert_eq!(counts, [100, 0, 100, 100], "{balance:?}");
        }
    }

    #[test]
    fn a_source_stays_unless_its_own_backend_leaves() {
        let front = front(Balance::Source, 5);
        let sources = (0..200_u8).map(|number| IpAddr::from([10, 0, 0, number]));
        let mut counts = [0; 5];
        for source in sources {
            let first = choose(&front, Some(source), Tried::default(), NOW).expect("all are well");
            counts[first] += 1;
            for other in (0..5).filter(|&other| other != first) {
                let mut tried = Tried::default();
                tried.add(other);
                assert_eq!(choose(&front, Some(source), tried, NOW), Some(first));
            }
        }
        assert!(counts.iter().all(|&count| count > 10), "{counts:?}");
    }

    #[test]
    fn the_unwell_are_never_taken_and_the_ejected_only_for_want_of_others() {
        let front = front(Balance::RoundRobin, 2);
        front.backends[0].set_well(false);
        for _ in 0..4 {
            assert_eq!(choose(&front, None, Tried::default(), NOW), Some(1));
        }
        for _ in 0..3 {
            front.backends[1].failed(&front.settings, NOW);
        }
        assert!(front.backends[1].is_ejected(NOW));
        assert_eq!(choose(&front, None, Tried::default(), NOW), Some(1));
        front.backends[1].set_well(false);
        assert_eq!(choose(&front, None, Tried::default(), NOW), None);
    }
}
