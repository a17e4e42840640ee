//! Memory and CPU time of a process, read from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Sub;

use serde::Serialize;

use crate::record::process::stat_of;
use machine::failure::{Context, Failure, Outcome};
use machine::host::number_after;

/// Unit of `utime` and `stime` in `/proc/PID/stat` (USER_HZ): 10 ms on all current Linux machines.
const TICK_NANOS: u64 = 10_000_000;

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Memory {
    /// Resident memory.
    pub resident: u64,
    /// Resident memory with shared pages divided among the processes that share them (PSS).
    pub proportional: u64,
    /// Resident memory that no other process shares.
    pub private: u64,
}

impl Memory {
    /// Reads the memory of process `pid`. The kernel walks its page tables, which takes a few
    /// milliseconds a gigabyte.
    ///
    /// # Errors
    ///
    /// When there is no such process, or its files in `/proc` cannot be read.
    pub fn of(pid: u32) -> Outcome<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
            .context(format_args!("reading the memory of process {pid}"))?;
        let field = |name| number_after(&text, name).unwrap_or(0) * 1024;
        Ok(Self {
            resident: field("Rss:"),
            proportional: field("Pss:"),
            private: field("Private_Clean:") + field("Private_Dirty:"),
        })
    }
}

/// CPU time of a process since it started.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CpuTime {
    /// Total in nanoseconds, as counted by the scheduler.
    pub total: u64,
    /// User time in nanoseconds, with a resolution of 10 ms.
    pub user: u64,
    /// System time in nanoseconds, with a resolution of 10 ms.
    pub system: u64,
    /// Nanoseconds by thread name without trailing digits: `worker` for all workers.
    pub by_thread: BTreeMap<String, u64>,
}

impl CpuTime {
    /// Reads the CPU time of process `pid`.
    ///
    /// # Errors
    ///
    /// When there is no such process, or its files in `/proc` cannot be read.
    pub fn of(pid: u32) -> Outcome<Self> {
        let stat = stat_of(pid)
            .ok_or_else(|| Failure::new(format!("the CPU time of process {pid} cannot be read")))?;
        let mut by_thread = BTreeMap::new();
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).context("reading its threads")?;
        for task in tasks.flatten() {
            // The thread may have ended since the listing.
            let read = |file: &str| fs::read_to_string(task.path().join(file));
            let (Ok(name), Ok(schedule)) = (read("comm"), read("schedstat")) else {
                continue;
            };
            let ran = schedule.split_whitespace().next();
            let ran: u64 = ran.and_then(|ran| ran.parse().ok()).unwrap_or(0);
            let name = name
                .trim()
                .trim_end_matches(|one: char| one.is_ascii_digit());
            let name = name.trim_end_matches('-').to_owned();
            *by_thread.entry(name).or_insert(0) += ran;
        }
        Ok(Self {
            total: by_thread.values().sum(),
            user: stat.user_ticks * TICK_NANOS,
            system: stat.system_ticks * TICK_NANOS,
            by_thread,
        })
    }

    /// Returns the share of user time, from 0 to 1.
    pub fn user_share(&self) -> f64 {
        self.user as f64 / (self.user + self.system).max(1) as f64
    }

    /// Subtracts the CPU time that an idle process uses in `seconds`, given that it used `idle` in
    /// `idle_seconds`.
    #[must_use]
    pub fn without_idle(&self, seconds: f64, idle: &Self, idle_seconds: f64) -> Self {
        let share = seconds / idle_seconds;
        let less = |busy: u64, idle: u64| busy.saturating_sub((idle as f64 * share) as u64);
        Self {
            total: less(self.total, idle.total),
            user: less(self.user, idle.user),
            system: less(self.system, idle.system),
            by_thread: self.by_thread.clone(),
        }
    }
}

impl Sub for &CpuTime {
    type Output = CpuTime;

    fn sub(self, before: &CpuTime) -> CpuTime {
        CpuTime {
            total: self.total.saturating_sub(before.total),
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            by_thread: self
                .by_thread
                .iter()
                .map(|(name, ran)| {
                    let earlier = before.by_thread.get(name).copied().unwrap_or(0);
                    (name.clone(), ran.saturating_sub(earlier))
                })
                .collect(),
        }
    }
}

/// Returns the median of `values`; NaN if there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_has_run() {
        let pid = std::process::id();
        let memory = Memory::of(pid).unwrap();
        assert!(memory.resident >= memory.private && memory.private > 0);
        assert!(memory.proportional <= memory.resident && memory.proportional > 0);
        assert!(CpuTime::of(pid).unwrap().total > 0);
    }

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]).to_bits(), 2.0f64.to_bits());
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]).to_bits(), 2.5f64.to_bits());
        assert!(median(&[]).is_nan());
    }
}
