//! What every process tells Prometheus of itself, under the names that all its clients use.
//!
//! Sources: Prometheus, "Writing client libraries", process metrics; `proc_pid_stat(5)`.

use rustix::fs::stat;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::text::Text;

/// What the kernel says of this process. What it does not say is left out.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Process {
    cpu_seconds: Option<f64>,
    start_seconds: Option<f64>,
    virtual_bytes: Option<u64>,
    resident_bytes: Option<u64>,
    descriptors: Option<u64>,
    descriptors_max: Option<u64>,
}

impl Process {
    /// Reads it. Files of `/proc` are made in memory: no disk is waited for.
    #[expect(
        clippy::disallowed_methods,
        reason = "/proc is memory and never blocks"
    )]
    pub(super) fn read() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let mut process = Self::parse(
            &read("/proc/self/stat"),
            &read("/proc/stat"),
            clock_ticks_per_second(),
            page_size() as u64,
        );
        // The size of the directory is the number of descriptors since Linux 6.2, and was 0 before.
        // Reading it would cost as much as a million streams.
        process.descriptors = stat("/proc/self/fd")
            .ok()
            .and_then(|stat| u64::try_from(stat.st_size).ok())
            .filter(|count| *count > 0);
        process.descriptors_max = getrlimit(Resource::Nofile).current;
        process
    }

    fn parse(own: &str, system: &str, ticks_per_second: u64, page_bytes: u64) -> Self {
        // The second field is the name of the program, which may have spaces and brackets in it.
        let fields: Vec<&str> = match own.rsplit_once(')') {
            Some((_, rest)) => rest.split_ascii_whitespace().collect(),
            None => Vec::new(),
        };
        // Numbered from 1 in the manual; the third is the first behind the name.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let seconds = |ticks: u64| ticks as f64 / ticks_per_second as f64;
        let booted = system
            .lines()
            .find_map(|line| line.strip_prefix("btime ")?.parse::<u64>().ok());
        Self {
            cpu_seconds: field(14)
                .zip(field(15))
                .map(|(own, kernel)| seconds(own + kernel)),
            start_seconds: booted
                .zip(field(22))
                .map(|(at, ticks)| at as f64 + seconds(ticks)),
            virtual_bytes: field(23),
            resident_bytes: field(24).map(|pages| pages * page_bytes),
            ..Self::default()
        }
    }

    /// Writes it.
    pub(super) fn write(&self, text: &mut Text) {
        if let Some(seconds) = self.cpu_seconds {
            text.counter("process_cpu_seconds", seconds);
        }
        let count = |count: Option<u64>| count.map(|count| count as f64);
        for (name, value) in [
            ("process_start_time_seconds", self.start_seconds),
            ("process_virtual_memory_bytes", count(self.virtual_bytes)),
            ("process_resident_memory_bytes", count(self.resident_bytes)),
            ("process_open_fds", count(self.descriptors)),
            ("process_max_fds", count(self.descriptors_max)),
        ] {
            if let Some(value) = value {
                text.gauge(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let own = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 3 0 2000 8192 11 18446";
        let process = Process::parse(own, "cpu 1 2\nbtime 1000\nprocesses 5\n", 100, 4096);
        let expected = Process {
            cpu_seconds: Some(2.0),
            start_seconds: Some(1020.0),
            virtual_bytes: Some(8192),
            resident_bytes: Some(11 * 4096),
            ..Process::default()
        };
        assert_eq!(process, expected);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        assert_eq!(Process::parse("", "", 100, 4096), Process::default());
        let cut = Process::parse("7 (a) S 1 2", "btime x", 100, 4096);
        assert_eq!(cut, Process::default());
    }

    #[test]
    fn this_process_has_all_of_them() {
        let process = Process::read();
        assert!(process.cpu_seconds.is_some() && process.descriptors_max.is_some());
        assert!(process.start_seconds.is_some_and(|at| at > 1e9));
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 1 << 20));
    }
}
