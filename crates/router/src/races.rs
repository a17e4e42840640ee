//! Laws of what threads share here, in whatever order they take their steps.

mod directory;
mod router;
mod tally;

/// Orders of each law by each scheduler.
const SCHEDULES: usize = 3_000;
