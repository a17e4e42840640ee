//! Choice of a backend for a connection.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use reactor::Tick;

use crate::tcp::frontend::Frontend;
use crate::tcp::settings::Balance;

/// Set of the backends that were tried for a connection, as a bit set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TriedBackends(u64);

impl TriedBackends {
    /// Adds a backend.
    pub(crate) const fn add(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    const fn contains(self, index: usize) -> bool {
        self.0 & 1 << index != 0
    }

    /// Returns the number of backends in the set.
    pub(crate) const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

/// Chooses a backend for a connection from `source`, and returns its index. Ejected backends are
/// used only when there are no others; backends whose health checks fail are never used.
pub(crate) fn choose(
    frontend: &Frontend,
    source: Option<IpAddr>,
    tried: TriedBackends,
    now: Tick,
) -> Option<usize> {
    choose_among(frontend, source, |index| {
        let backend = &frontend.backends[index];
        !tried.contains(index) && backend.is_well() && !backend.is_ejected(now)
    })
    .or_else(|| {
        choose_among(frontend, source, |index| {
            !tried.contains(index) && frontend.backends[index].is_well()
        })
    })
}

fn choose_among(
    frontend: &Frontend,
    source: Option<IpAddr>,
    usable: impl Fn(usize) -> bool,
) -> Option<usize> {
    let usable = IndexSet::of((0..frontend.backends.len()).filter(|&index| usable(index)));
    match frontend.settings.balance {
        Balance::RoundRobin => usable.in_turn(frontend),
        Balance::Least => {
            // Other workers change these counts concurrently, so each is read once.
            let mut least = (u32::MAX, IndexSet(0));
            for index in usable.iter() {
                let load = frontend.backends[index].connections.load(Ordering::Relaxed);
                match load.cmp(&least.0) {
                    Less => least = (load, IndexSet(1 << index)),
                    Equal => least.1.0 |= 1 << index,
                    Greater => {}
                }
            }
            least.1.in_turn(frontend)
        }
        // Rendezvous hashing (Thaler and Ravishankar 1998): when a backend leaves, only its own
        // sources move.
        Balance::Source => usable.iter().max_by_key(|&index| {
            let mut hasher = DefaultHasher::new();
            (source, frontend.backends[index].address).hash(&mut hasher);
            hasher.finish()
        }),
    }
}

/// Set of backend indexes, as a bit set.
#[derive(Debug, Clone, Copy)]
struct IndexSet(u64);

impl IndexSet {
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

    /// Returns the members in turn. The turns of a backend that is left out are shared equally by
    /// all others instead of going to its neighbour.
    fn in_turn(self, frontend: &Frontend) -> Option<usize> {
        let count = self.0.count_ones() as usize;
        if count == 0 {
            return None;
        }
        let round = frontend.round.fetch_add(1, Ordering::Relaxed);
        self.iter().nth(round % count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::SocketAddr;

    use super::*;
    use crate::tcp::settings::{BackendAddress, ListenerSettings};

    fn frontend(balance: Balance, count: u8) -> Frontend {
        let address: SocketAddr = "127.0.0.1:80".parse().expect("valid");
        let backends = (1..=count).map(|number| BackendAddress {
            name: number.to_string(),
            address: SocketAddr::from(([127, 0, 0, number], 80)),
        });
        let mut settings = ListenerSettings::new(address, backends.collect());
        settings.balance = balance;
        Frontend::new(address, settings, None)
    }

    const NOW: Tick = Tick(0);

    #[test]
    fn round_robin_leaves_no_backend_out() {
        let frontend = frontend(Balance::RoundRobin, 3);
        let chosen: Vec<_> = (0..6)
            .map(|_| choose(&frontend, None, TriedBackends::default(), NOW))
            .collect();
        let indexes = [0, 1, 2, 0, 1, 2].map(Some);
        assert_eq!(chosen, indexes);
    }

    #[test]
    fn the_backend_with_the_fewest_connections_is_taken_and_equals_take_turns() {
        let frontend = frontend(Balance::Least, 3);
        let all: HashSet<_> = (0..3)
            .map(|_| choose(&frontend, None, TriedBackends::default(), NOW))
            .collect();
        assert_eq!(all.len(), 3);
        frontend.backends[0].connections.store(2, Ordering::Relaxed);
        frontend.backends[1].connections.store(1, Ordering::Relaxed);
        frontend.backends[2].connections.store(2, Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(
                choose(&frontend, None, TriedBackends::default(), NOW),
                Some(1)
            );
        }
    }

    #[test]
    fn the_share_of_a_backend_that_is_out_falls_to_all_others_alike() {
        for balance in [Balance::RoundRobin, Balance::Least] {
            let frontend = frontend(balance, 4);
            frontend.backends[1].set_well(false);
            let mut counts = [0; 4];
            for _ in 0..300 {
                let chosen = choose(&frontend, None, TriedBackends::default(), NOW);
                counts[chosen.expect("three are well")] += 1;
            }
            assert_eq!(counts, [100, 0, 100, 100], "{balance:?}");
        }
    }

    #[test]
    fn a_source_stays_unless_its_own_backend_leaves() {
        let frontend = frontend(Balance::Source, 5);
        let sources = (0..200_u8).map(|number| IpAddr::from([10, 0, 0, number]));
        let mut counts = [0; 5];
        for source in sources {
            let first = choose(&frontend, Some(source), TriedBackends::default(), NOW)
                .expect("all are well");
            counts[first] += 1;
            for other in (0..5).filter(|&other| other != first) {
                let mut tried = TriedBackends::default();
                tried.add(other);
                assert_eq!(choose(&frontend, Some(source), tried, NOW), Some(first));
            }
        }
        assert!(counts.iter().all(|&count| count > 10), "{counts:?}");
    }

    #[test]
    fn unwell_backends_are_never_taken_and_ejected_ones_only_without_others() {
        let frontend = frontend(Balance::RoundRobin, 2);
        frontend.backends[0].set_well(false);
        for _ in 0..4 {
            assert_eq!(
                choose(&frontend, None, TriedBackends::default(), NOW),
                Some(1)
            );
        }
        for _ in 0..3 {
            frontend.backends[1].record_failure(&frontend.settings, NOW);
        }
        assert!(frontend.backends[1].is_ejected(NOW));
        assert_eq!(
            choose(&frontend, None, TriedBackends::default(), NOW),
            Some(1)
        );
        frontend.backends[1].set_well(false);
        assert_eq!(choose(&frontend, None, TriedBackends::default(), NOW), None);
    }
}
