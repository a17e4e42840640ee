//! Laws of a tally.

use std::sync::Arc;

use scheduled::{block_on, check, choose, spawn};

use super::SCHEDULES;
use crate::tally::{Counts, Tally};

const WORKERS: u64 = 3;

// A publisher that looked before the last parcel was settled, and said where to wake it after that,
// waited for ever.
#[test]
fn a_publisher_is_woken_by_whoever_settles_last_and_has_all_counts() {
    check(SCHEDULES, || {
        let tally = Tally::new();
        for _ in 0..WORKERS {
            tally.expect();
        }
        tally.expect_stored();
        let workers = (0..WORKERS).map(|worker| {
            let tally = Arc::clone(&tally);
            spawn(move || {
                // Both parts of a delivery are counted before it is settled.
                for part in [worker, 10] {
                    tally.add(Counts {
                        written: part,
                        queued: 1,
                        shed: 0,
                    });
                }
                tally.settle();
            })
        });
        let log = {
            let tally = Arc::clone(&tally);
            spawn(move || tally.settle_stored(4))
        };
        let others: Vec<_> = workers.chain([log]).collect();
        if choose(2) == 0 {
            block_on(tally.stored());
            assert_eq!((tally.storing(), tally.unstored()), (0, 4));
        }
        let counts = block_on(tally.done());
        let expected = Counts {
            written: WORKERS * (WORKERS - 1) / 2 + 10 * WORKERS,
            queued: 2 * WORKERS,
            shed: 0,
        };
        assert_eq!((counts, tally.pending()), (expected, 0));
        assert_eq!(tally.unstored(), 4);
        others
            .into_iter()
            .for_each(|thread| thread.join().expect("no panic"));
    });
}
