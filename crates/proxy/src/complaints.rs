//! What goes wrong, said once a second at most for each kind and whom it is about. The rest is counted
//! and said with the next, whichever worker met it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reactor::Tick;

/// How often the same complaint may stand in the log.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(1);

/// Kinds of complaints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Complaint {
    Descriptors,
    Backend,
    Ejected,
    NoBackend,
    Header,
    AccessLog,
    Latency,
}

/// What all workers of a server have complained of. Cheap to clone. The workers' clocks begin within
/// moments of each other, which is exact enough.
#[derive(Debug, Clone, Default)]
pub(crate) struct Complaints(Arc<Mutex<HashMap<(Complaint, String), Said>>>);

#[derive(Debug)]
struct Said {
    at: Tick,
    since: u64,
}

impl Complaints {
    /// Says a sentence about `whom`, unless the like was said just now.
    pub(crate) fn note(
        &self,
        now: Tick,
        kind: Complaint,
        whom: &str,
        sentence: impl FnOnce() -> String,
    ) {
        let Some(since) = self.count(now, kind, whom) else {
            return;
        };
        match since {
            0 => tracing::warn!("{}", sentence()),
            _ => tracing::warn!("{} ({since} more since the last time)", sentence()),
        }
    }

    /// How many went unsaid, if this one is to be said.
    fn count(&self, now: Tick, kind: Complaint, whom: &str) -> Option<u64> {
        // The names are those of backends and listeners: few, and of the operator's choice.
        let key = (kind, whom.to_owned());
        let mut said_of = self.0.lock();
        match said_of.get_mut(&key) {
            Some(said) if now.since(said.at) < COMPLAINT_INTERVAL => {
                said.since += 1;
                None
            }
            Some(said) => {
                let since = said.since;
                *said = Said { at: now, since: 0 };
                Some(since)
            }
            None => {
                said_of.insert(key, Said { at: now, since: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_failures_is_one_line_a_second_that_counts_them() {
        // Workers take turns.
        let first = Complaints::default();
        let workers = [first.clone(), first];
        let note = |millis: u64, whom| {
            let worker = &workers[millis as usize % 2];
            worker.count(Tick(millis), Complaint::Backend, whom)
        };
        assert_eq!(note(0, "a"), Some(0));
        assert_eq!(note(10, "b"), Some(0), "another backend");
        for millis in 1..1000 {
            assert_eq!(note(millis, "a"), None);
        }
        assert_eq!(note(1000, "a"), Some(999));
        assert_eq!(note(5001, "a"), Some(0));
    }
}
