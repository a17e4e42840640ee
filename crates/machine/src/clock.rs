//! Clocks in nanoseconds: the monotonic clock, which all processes of the machine share, and the
//! real-time clock, which can be compared between machines.

use rustix::time::{ClockId, clock_gettime};

const NANOS: u64 = 1_000_000_000;

/// Returns the monotonic clock in nanoseconds. Only differences have a meaning.
pub fn monotonic_nanos() -> u64 {
    nanos_of(ClockId::Monotonic)
}

/// Returns the real-time clock in nanoseconds since the epoch. Comparable between machines whose
/// clocks are synchronised.
pub fn realtime_nanos() -> u64 {
    nanos_of(ClockId::Realtime)
}

/// Returns the CPU time that the calling thread has used, in nanoseconds.
pub fn thread_cpu_nanos() -> u64 {
    nanos_of(ClockId::ThreadCPUTime)
}

fn nanos_of(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or(0) * NANOS + u64::try_from(now.tv_nsec).unwrap_or(0)
}
