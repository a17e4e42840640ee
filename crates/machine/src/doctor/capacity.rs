//! Number of connections that fit into descriptor tables, for `encke serve` and `encke doctor`.

/// Descriptors of the process that are not clients: standard streams, signals, control connections.
pub const DESCRIPTORS_OWN: u64 = 64;

/// Pollers, wakers and listeners of a worker.
pub const DESCRIPTORS_WORKER: u64 = 4;

/// Most workers of a server: a session's name has ten bits for the worker, and one value is
/// reserved.
pub const WORKERS_MAX: u64 = 1023;

/// Longest useful accept queue: connections that may arrive within a turn or two of the workers. A
/// longer one only hides that they are too slow.
pub const ACCEPT_QUEUE: u64 = 4096;

/// Number of unprivileged ports: 1024 to 65535.
pub const PORTS_MOST: u64 = 64_512;

/// Returns how many connections fit into tables of `limit` descriptors: one table for all workers,
/// or with `private` one for each.
pub fn connections(limit: u64, workers: u64, private: bool) -> u64 {
    let own = DESCRIPTORS_OWN + DESCRIPTORS_WORKER * workers;
    limit.saturating_sub(own) * if private { workers } else { 1 }
}

/// Returns the descriptors that a table needs for its share of `connections`. The kernel
/// distributes connections over listeners by a hash, so the fullest private table has more than its
/// share; a margin of four standard deviations is exceeded by one table in 30,000.
pub fn descriptors(connections: u64, workers: u64, private: bool) -> u64 {
    let own = DESCRIPTORS_OWN + DESCRIPTORS_WORKER * workers;
    if !private {
        return connections + own;
    }
    let share = connections.div_ceil(workers.max(1));
    share + 4 * share.isqrt() + own
}

/// Returns the smallest number of workers with private tables for which `limit` descriptors are
/// enough, or `None` if no number is.
pub fn workers(connections: u64, limit: u64) -> Option<u64> {
    (1..=WORKERS_MAX).find(|&workers| descriptors(connections, workers, true) <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptors_needed_hold_all_connections() {
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
