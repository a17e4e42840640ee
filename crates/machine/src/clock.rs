//! Time for the tools, in nanoseconds: the machine's monotonic clock, which its processes share,
//! and the real-time clock, which a publisher on another machine shares as well.

use rustix::time::{ClockId, clock_gettime};

const NANOS: u64 = 1_000_000_000;

/// Nanoseconds since the machine started.
pub fn monotonic_nanos() -> u64 {
    nanos_of(ClockId::Monotonic)
}

/// Nanoseconds since the epoch: comparable between machines whose clocks are synchronised.
pub fn realtime_nanos() -> u64 {
    nanos_of(ClockId::Realtime)
}

/// Processor time that the calling thread has used, in nanoseconds.
pub fn thread_cpu_nanos() -> u64 {
    nanos_of(ClockId::ThreadCPUTime)
}

fn nanos_of(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or(0) * NANOS + u64::try_from(now.tv_nsec).unwrap_or(0)
}
