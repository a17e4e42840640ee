//! Limits of the machine on connections, and how to raise them.

use std::fmt;

use cli::units::{human_count, human_size};
use machine::doctor::capacity::{self, ACCEPT_QUEUE, PORTS_MOST};
use machine::doctor::readings::Readings;
use machine::measured::{KERNEL_END_BYTES, SESSION_BYTES};
use router::WORKERS_MAX;

use crate::config::Config;

/// Memory of an idle connection, most of which is the kernel's: socket, file and dentry.
const CONNECTION_BYTES: u64 = KERNEL_END_BYTES + SESSION_BYTES;

// The doctor must not recommend more workers than are possible.
const _: () = assert!(capacity::WORKERS_MAX == WORKERS_MAX as u64);

/// A warning is logged if there is room for fewer connections than this.
const NARROW: u64 = 5_000;

/// Number of connections for which remedies are computed.
const MILLION: u64 = 1_000_000;

/// A kernel setting of at least this is not reported.
const AMPLE: u64 = 2 * MILLION;

/// A limit on connections.
#[derive(Debug)]
struct Limit {
    name: &'static str,
    connections: u64,
    /// The limit as text.
    found: String,
    /// How to raise it.
    remedy: String,
}

/// Limits on connections, the lowest first.
#[derive(Debug)]
pub(super) struct Room {
    limits: Vec<Limit>,
    /// Limits that do not bound the server's connections.
    remarks: Vec<String>,
}

impl Room {
    /// Reads the limits of the machine.
    pub(super) fn measure(config: &Config) -> Self {
        let readings = Readings::of_machine();
        let settings = &config.settings;
        let mut limits = vec![descriptors(
            readings.descriptors_soft,
            readings.descriptors_hard,
            settings.workers,
            settings.private_fds,
        )];
        let others = [memory(&readings), tracked(&readings), open_files(&readings)];
        limits.extend(others.into_iter().flatten());
        let max_connections = settings.live.max_connections;
        if max_connections != usize::MAX {
            limits.push(Limit {
                name: "your limit",
                connections: max_connections as u64,
                found: "set with --max-connections".to_owned(),
                remedy: "set it higher".to_owned(),
            });
        }
        limits.sort_by_key(|limit| limit.connections);
        Self {
            limits,
            remarks: [ports(&readings), accept_queue(&readings)]
                .into_iter()
                .flatten()
                .collect(),
        }
    }

    /// Returns the approximate number of connections; `None` if no limit is known.
    pub(super) fn connections(&self) -> Option<u64> {
        self.limits.first().map(|limit| about(limit.connections))
    }

    /// Returns a warning if the limit on descriptors is too low for practical use.
    pub(super) fn warning(&self) -> Option<String> {
        let first = self.limits.first()?;
        let narrow = first.connections < NARROW && first.name == "descriptors";
        narrow.then(|| {
            let room = human_count(about(first.connections));
            format!(
                "the server can hold only about {room} connections; to raise the limit: {}",
                first.remedy
            )
        })
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(connections) = self.connections() {
            let connections = human_count(connections);
            write!(
                f,
                "room for about {connections} connections; limits, the lowest first:"
            )?;
        }
        for Limit {
            name,
            connections,
            found,
            remedy,
        } in &self.limits
        {
            let connections = human_count(about(*connections));
            write!(
                f,
                "\n  {name:14} {connections:>11}  {found}; to raise: {remedy}"
            )?;
        }
        for remark in &self.remarks {
            write!(f, "\n{remark}")?;
        }
        Ok(())
    }
}

/// Rounds down to three digits, because the number is an estimate.
fn about(count: u64) -> u64 {
    let mut step = 1;
    while count / step >= 1000 {
        step *= 10;
    }
    count / step * step
}

fn descriptors(soft: u64, hard: u64, workers: u16, private: bool) -> Limit {
    let connections = capacity::connections(soft, workers.into(), private);
    let limit = human_count(soft);
    let found = if private {
        format!("{limit} for each worker")
    } else {
        format!("{limit} for the process")
    };
    let mut remedy = if soft < hard {
        format!("ulimit -n {hard}")
    } else {
        "set a higher hard limit (ulimit -Hn, LimitNOFILE= in a unit)".to_owned()
    };
    if connections < MILLION
        && let Some(needed) = capacity::workers(MILLION, soft)
    {
        let flag = if private { "" } else { "--private-fds " };
        remedy.push_str(&format!(", or {flag}--workers {needed} for a million"));
    }
    Limit {
        name: "descriptors",
        connections,
        found,
        remedy,
    }
}

/// Returns the limit by the memory of the machine, or of a control group that has less.
fn memory(readings: &Readings) -> Option<Limit> {
    let (bytes, group) = readings.memory_left()?;
    let (whose, remedy) = match group {
        Some(_) => (
            "left to the control group",
            "set MemoryMax=, or docker run --memory",
        ),
        None => ("available", "add memory"),
    };
    Some(Limit {
        name: "memory",
        connections: bytes / CONNECTION_BYTES,
        found: format!(
            "{} {whose}; a connection takes {}, most of it in the kernel",
            human_size(bytes),
            human_size(CONNECTION_BYTES)
        ),
        remedy: remedy.to_owned(),
    })
}

/// Returns the limit by a stateful firewall.
fn tracked(readings: &Readings) -> Option<Limit> {
    let (_, most) = readings.tracked.filter(|&(_, most)| most < AMPLE)?;
    Some(Limit {
        name: "firewall table",
        connections: most,
        found: "if a firewall tracks connections".to_owned(),
        remedy: "sysctl -w net.netfilter.nf_conntrack_max=2000000".to_owned(),
    })
}

/// Returns the limit by the files that all processes together may have open.
fn open_files(readings: &Readings) -> Option<Limit> {
    let most = readings.files_max.filter(|&most| most < AMPLE)?;
    Some(Limit {
        name: "open files",
        connections: most,
        found: "for the whole machine".to_owned(),
        remedy: "sysctl -w fs.file-max=2000000".to_owned(),
    })
}

/// Returns a remark on ports. They do not limit a server, but a client that connects from one
/// address.
fn ports(readings: &Readings) -> Option<String> {
    let count = readings.ports_count()?;
    let remedy = if count < PORTS_MOST {
        "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\", or more addresses"
    } else {
        "more addresses"
    };
    let count = human_count(count);
    Some(format!(
        "ports: a client or proxy on this machine has {count} for each of its addresses; to raise: \
         {remedy}"
    ))
}

/// Returns a remark on the accept queue. Beyond it, connections of clients that reconnect at once
/// are dropped.
fn accept_queue(readings: &Readings) -> Option<String> {
    let queue = readings
        .accept_queue
        .filter(|&queue| queue < ACCEPT_QUEUE)?;
    Some(format!(
        "accept queue: {} connections can wait for a worker, too few if many clients reconnect at \
         once; to raise: sysctl -w net.core.somaxconn=65535",
        human_count(queue)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_tables_multiply_descriptors() {
        let shared = descriptors(20_000, 20_000, 64, false);
        let private = descriptors(20_000, 20_000, 64, true);
        assert_eq!(private.connections, 64 * shared.connections);
        assert!(private.connections > 1_000_000);
        assert!(
            shared.remedy.contains("--private-fds --workers 53"),
            "{}",
            shared.remedy
        );
        assert!(!private.remedy.contains("--workers"), "{}", private.remedy);
        let few = descriptors(20_000, 20_000, 4, true);
        assert!(
            few.remedy.contains("or --workers 53 for a million"),
            "{}",
            few.remedy
        );
        // No number of workers is recommended if none would suffice.
        let tiny = descriptors(100, 100, 64, false);
        assert_eq!(
            (tiny.connections, tiny.remedy.contains("private")),
            (0, false)
        );
    }
}
