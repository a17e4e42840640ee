//! How many connections fit in descriptor tables. `encke serve` says so at its start, and `encke
//! doctor` before.

/// Descriptors that are no clients': standard streams, signals, pollers, listeners, control.
pub const DESCRIPTORS_OWN: u64 = 64;

/// Pollers, wakers and listeners of a worker.
pub const DESCRIPTORS_WORKER: u64 = 4;

/// Most workers of a server: their number has ten bits in a session's name, one of them reserved.
pub const WORKERS_MAX: u64 = 1023;

/// Connections that may come back within a turn or two of the workers: a longer accept queue only
/// hides that they are too slow.
pub const ACCEPT_QUEUE: u64 = 4096;

/// Ports from 1024 up.
pub const PORTS_MOST: u64 = 64_512;

/// Connections that tables of `limit` descriptors hold, one for all workers or one for each.
pub fn connections(limit: u64, workers: u64, private: bool) -> u64 {
    let own = DESCRIPTORS_OWN + DESCRIPTORS_WORKER * workers;
    limit.saturating_sub(own) * if private { workers } else { 1 }
}

/// Descriptors that a table needs for its share of `connections`. The kernel spreads connections
/// over listeners by a hash, so with tables for each worker the fullest has more than its share:
/// four standard deviations leave one table of 30,000 too small.
pub fn descriptors(connections: u64, workers: u64, private: bool) -> u64 {
    let own = DESCRIPTORS_OWN + DESCRIPTORS_WORKER * workers;
    if !private {
        return connections + own;
    }
    let share = connections.div_ceil(workers.max(1));
    share + 4 * share.isqrt() + own
}

/// The least number of workers with tables of their own for which `limit` descriptors are enough;
/// nothing when no number is.
pub fn workers(connections: u64, limit: u64) -> Option<u64> {
    (1..=WORKERS_MAX).find(|&workers| descriptors(connections, workers, true) <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_room_enough() {
        for count in [1, 100, 18_000, 1_000_000] {
            for workers in [1, 2, 64, 1000] {
                for private in [false, true] {
                    let needed = descriptors(count, workers, private);
                    let room = connections(needed, workers, private);
                    assert!(room >= count, "{count} {workers} {private}: {room}");
                }
            }
        }
    }

    #[test]
    fn a_million_need_some_fifty_tables_of_20_000() {
        let workers = workers(1_000_000, 20_000).unwrap();
        assert!((51..60).contains(&workers), "{workers}");
        assert!(descriptors(1_000_000, workers, true) <= 20_000);
        assert!(descriptors(1_000_000, workers - 1, true) > 20_000);
        assert_eq!(super::workers(1_000_000, 100), None);
    }
}
