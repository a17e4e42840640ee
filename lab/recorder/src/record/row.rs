//! Row of a recording, and the titles of its columns.
//!
//! Owns the column titles, which `plot` uses. A cell that could not be read, or was not due, is
//! empty.

use std::fmt;
use std::time::{Duration, SystemTime};

/// Metrics of a process, in bytes and seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessMetrics {
    /// Pid of the process.
    pub pid: u32,
    /// Resident memory.
    pub resident: u64,
    /// Resident memory with shared pages divided among the processes that share them (PSS); `None`
    /// when not due.
    pub proportional: Option<u64>,
    /// Resident memory that no other process shares; `None` when not due.
    pub private: Option<u64>,
    /// CPU time in user mode since it started.
    pub user_seconds: f64,
    /// CPU time in the kernel since it started.
    pub system_seconds: f64,
    /// Number of threads.
    pub threads: u64,
}

/// Metrics of the machine over all processes, in bytes except for `tcp_sockets`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineMetrics {
    /// Number of TCP sockets in use.
    pub tcp_sockets: Option<u64>,
    /// Memory of the queues of TCP sockets.
    pub socket_memory: Option<u64>,
    /// Memory of all kernel objects.
    pub slab: Option<u64>,
    /// Memory of kernel objects that cannot be reclaimed under pressure, such as sockets.
    pub slab_unreclaimable: Option<u64>,
    /// Slabs of `struct tcp_sock` of IPv4; only root may read it.
    pub slab_tcp: Option<u64>,
    /// Slabs of `struct socket` and its inode; only root may read it.
    pub slab_sock_inode: Option<u64>,
    /// Memory available to programs.
    pub available: Option<u64>,
    /// Bytes received on all interfaces since the machine started.
    pub network_received: Option<u64>,
    /// Bytes sent on all interfaces since the machine started.
    pub network_sent: Option<u64>,
}

/// Readings taken at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Time of the reading.
    pub time: SystemTime,
    /// Time since the recording began.
    pub elapsed: Duration,
    /// Metrics of the process, while there is one.
    pub process: Option<ProcessMetrics>,
    /// Established connections on the port; `None` when not due.
    pub connections: Option<u64>,
    /// Metrics of the machine.
    pub machine: MachineMetrics,
}

impl Row {
    /// Creates a row without readings.
    pub fn at(time: SystemTime, elapsed: Duration) -> Self {
        Self {
            time,
            elapsed,
            process: None,
            connections: None,
            machine: MachineMetrics::default(),
        }
    }
}

/// Title of the column of seconds since the recording began.
pub const ELAPSED: &str = "elapsed_seconds";
/// Title of the column of resident bytes.
pub const RESIDENT: &str = "resident_bytes";
/// Title of the column of private bytes.
pub const PRIVATE: &str = "private_bytes";
/// Title of the column of user time.
pub const CPU_USER: &str = "cpu_user_seconds";
/// Title of the column of system time.
pub const CPU_SYSTEM: &str = "cpu_system_seconds";
/// Title of the column of connections.
pub const CONNECTIONS: &str = "established_connections";
/// Title of the column of bytes in TCP queues.
pub const SOCKET_MEMORY: &str = "socket_memory_bytes";
/// Title of the column of all kernel objects.
pub const SLAB: &str = "slab_bytes";
/// Title of the column of bytes received.
pub const NETWORK_RECEIVED: &str = "network_received_bytes";
/// Title of the column of bytes sent.
pub const NETWORK_SENT: &str = "network_sent_bytes";

/// Function that returns the value of a cell.
type Cell = fn(&Row) -> Option<f64>;

/// All columns except the first, which is the time of day.
const COLUMNS: [(&str, Cell); 18] = [
    (ELAPSED, |row| Some(row.elapsed.as_secs_f64())),
    ("pid", |row| Some(f64::from(row.process?.pid))),
    (RESIDENT, |row| whole(Some(row.process?.resident))),
    ("proportional_bytes", |row| whole(row.process?.proportional)),
    (PRIVATE, |row| whole(row.process?.private)),
    (CPU_USER, |row| Some(row.process?.user_seconds)),
    (CPU_SYSTEM, |row| Some(row.process?.system_seconds)),
    ("threads", |row| whole(Some(row.process?.threads))),
    (CONNECTIONS, |row| whole(row.connections)),
    ("tcp_sockets", |row| whole(row.machine.tcp_sockets)),
    (SOCKET_MEMORY, |row| whole(row.machine.socket_memory)),
    (SLAB, |row| whole(row.machine.slab)),
    ("slab_unreclaimable_bytes", |row| {
        whole(row.machine.slab_unreclaimable)
    }),
    ("slab_tcp_bytes", |row| whole(row.machine.slab_tcp)),
    ("slab_sock_inode_bytes", |row| {
        whole(row.machine.slab_sock_inode)
    }),
    ("available_bytes", |row| whole(row.machine.available)),
    (NETWORK_RECEIVED, |row| whole(row.machine.network_received)),
    (NETWORK_SENT, |row| whole(row.machine.network_sent)),
];

/// Title of the first column: the time of day (RFC 3339, UTC).
pub const TIME: &str = "time";

/// Converts a count to a float, which is exact up to 2^53 (8 PiB).
fn whole(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}

/// Returns the titles, separated by commas.
pub fn header() -> String {
    let mut text = TIME.to_owned();
    for (title, _) in COLUMNS {
        text.push(',');
        text.push_str(title);
    }
    text
}

/// Writes the cells, separated by commas.
impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", humantime::format_rfc3339_millis(self.time))?;
        for (_, cell) in COLUMNS {
            out.write_str(",")?;
            match cell(self) {
                Some(number) if number.fract() == 0.0 => write!(out, "{number:.0}")?,
                Some(number) => write!(out, "{number:.3}")?,
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_title() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_567_890_123);
        let mut row = Row::at(time, Duration::from_millis(1500));
        assert_eq!(
            row.to_string(),
            "2009-02-13T23:31:30.123Z,1.500,,,,,,,,,,,,,,,,,"
        );
        row.process = Some(ProcessMetrics {
            pid: 7,
            resident: 1 << 40,
            user_seconds: 0.25,
            ..ProcessMetrics::default()
        });
        row.connections = Some(0);
        let text = row.to_string();
        assert_eq!(text.split(',').count(), header().split(',').count());
        assert!(text.contains(",7,1099511627776,,,0.250,0,0,0,,"), "{text}");
    }
}
