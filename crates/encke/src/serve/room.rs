//! How many connections fit, what binds first, and how to raise it.

use std::fmt;
use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use router::WORKERS_MAX;

use crate::config::Config;
use crate::units::{spoken_count, spoken_size};

/// Memory that an idle connection costs, most of it the kernel's: its socket, file and dentry.
const CONNECTION_BYTES: u64 = 4096;

/// Descriptors that are no clients': standard streams, signals, pollers, listeners, control.
const DESCRIPTORS_OWN: u64 = 64;

/// Pollers, wakers and listeners of a worker.
const DESCRIPTORS_WORKER: u64 = 4;

/// Fewer connections than this deserve a warning: a busy site meets them on its first day.
const NARROW: u64 = 5_000;

/// What one machine is meant to hold.
const MILLION: u64 = 1_000_000;

/// A kernel setting of at least this is not worth a word.
const AMPLE: u64 = 2 * MILLION;

/// Ports from 1024 up.
const PORTS_MOST: u64 = 64_512;

/// An accept queue shorter than this overflows when clients come back all at once.
const QUEUE_SHORT: u64 = 4096;

/// Raises the limit on descriptors as far as an unprivileged process may.
pub(crate) fn raise_descriptors() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::warn!("the limit on descriptors stays at {soft}, not {hard}: {error}");
    }
}

/// Something that bounds connections.
#[derive(Debug)]
struct Limit {
    name: &'static str,
    connections: u64,
    /// What was found.
    found: String,
    /// How to raise it.
    remedy: String,
}

/// What bounds connections, the tightest first.
#[derive(Debug)]
pub(super) struct Room {
    limits: Vec<Limit>,
    /// What bounds something else.
    remarks: Vec<String>,
}

impl Room {
    /// Asks the machine.
    pub(super) fn measure(config: &Config) -> Self {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        let settings = &config.settings;
        let mut limits = vec![descriptors(
            soft,
            hard,
            settings.workers,
            settings.private_fds,
        )];
        limits.extend([memory(), tracked(), open_files()].into_iter().flatten());
        if settings.max_connections != usize::MAX {
            limits.push(Limit {
                name: "your own limit",
                connections: settings.max_connections as u64,
                found: "as configured".to_owned(),
                remedy: "--max-connections".to_owned(),
            });
        }
        limits.sort_by_key(|limit| limit.connections);
        Self {
            limits,
            remarks: [ports(), accept_queue()].into_iter().flatten().collect(),
        }
    }

    /// About how many connections fit; nothing when nothing is known to bind.
    pub(super) fn connections(&self) -> Option<u64> {
        self.limits.first().map(|limit| about(limit.connections))
    }

    /// A warning where there is too little room for anything but a trial, and nobody asked for it.
    pub(super) fn warning(&self) -> Option<String> {
        let first = self.limits.first()?;
        let narrow = first.connections < NARROW && first.name == "descriptors";
        narrow.then(|| {
            let room = spoken_count(about(first.connections));
            format!(
                "there is room for about {room} connections only; to raise: {}",
                first.remedy
            )
        })
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(connections) = self.connections() {
            let connections = spoken_count(connections);
            write!(
                f,
                "room for about {connections} connections; what binds, the first first:"
            )?;
        }
        for Limit {
            name,
            connections,
            found,
            remedy,
        } in &self.limits
        {
            let connections = spoken_count(about(*connections));
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

/// A figure without the digits that nobody can promise.
fn about(count: u64) -> u64 {
    let mut step = 1;
    while count / step >= 1000 {
        step *= 10;
    }
    count / step * step
}

fn descriptors(soft: u64, hard: u64, workers: u16, private: bool) -> Limit {
    let own = DESCRIPTORS_OWN + DESCRIPTORS_WORKER * u64::from(workers);
    let table = soft.saturating_sub(own);
    let limit = spoken_count(soft);
    let (connections, found) = if private {
        (
            table * u64::from(workers),
            format!("{limit} for each worker"),
        )
    } else {
        (table, format!("{limit} for the process"))
    };
    let mut remedy = if soft < hard {
        format!("ulimit -n {hard}")
    } else {
        "the hard limit (ulimit -Hn, LimitNOFILE= in a unit)".to_owned()
    };
    let needed = MILLION.div_ceil(table.max(1));
    if connections < MILLION && needed <= u64::from(WORKERS_MAX) {
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

/// The memory there is, or less where a control group has less.
fn memory() -> Option<Limit> {
    let machine = available(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let group = group_rest();
    let (bytes, whose, remedy) = match group {
        Some(group) if group < machine => (
            group,
            "left to the control group",
            "MemoryMax= or docker run --memory",
        ),
        _ => (machine, "available", "more memory"),
    };
    Some(Limit {
        name: "memory",
        connections: bytes / CONNECTION_BYTES,
        found: format!(
            "{} {whose}, {} a connection, most of it the kernel's",
            spoken_size(bytes),
            spoken_size(CONNECTION_BYTES)
        ),
        remedy: remedy.to_owned(),
    })
}

/// Connections that a stateful firewall keeps track of.
fn tracked() -> Option<Limit> {
    let path = "/proc/sys/net/netfilter/nf_conntrack_max";
    let most = read_number(path).filter(|&most| most < AMPLE)?;
    Some(Limit {
        name: "firewall table",
        connections: most,
        found: "where a firewall tracks connections".to_owned(),
        remedy: "sysctl -w net.netfilter.nf_conntrack_max=2000000".to_owned(),
    })
}

/// Files that all processes together may have open.
fn open_files() -> Option<Limit> {
    let most = read_number("/proc/sys/fs/file-max").filter(|&most| most < AMPLE)?;
    Some(Limit {
        name: "open files",
        connections: most,
        found: "for the whole machine".to_owned(),
        remedy: "sysctl -w fs.file-max=2000000".to_owned(),
    })
}

/// Ports do not bind a server, but they do bind whoever connects from one address.
fn ports() -> Option<String> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut bounds = range
        .split_whitespace()
        .filter_map(|bound| bound.parse::<u64>().ok());
    let (first, last) = (bounds.next()?, bounds.next()?);
    let count = (last + 1).checked_sub(first)?;
    let remedy = if count < PORTS_MOST {
        "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\", or more addresses"
    } else {
        "more addresses"
    };
    let count = spoken_count(count);
    Some(format!(
        "ports: a client or proxy on this machine has {count} for each address it connects from; \
         to raise: {remedy}"
    ))
}

/// Connections beyond the accept queue are dropped when clients come back all at once.
fn accept_queue() -> Option<String> {
    let queue = read_number("/proc/sys/net/core/somaxconn").filter(|&queue| queue < QUEUE_SHORT)?;
    Some(format!(
        "accept queue: {} connections may wait for a worker, few when clients come back all at \
         once; to raise: sysctl -w net.core.somaxconn=65535",
        spoken_count(queue)
    ))
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// What is left of the tightest limit among the control groups that this process is in (version 2).
fn group_rest() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut rest: Option<u64> = None;
    let mut group = Some(path.trim_matches('/'));
    while let Some(path) = group {
        let folder = format!("/sys/fs/cgroup/{path}");
        if let Some(most) = read_number(&format!("{folder}/memory.max")) {
            let used = read_number(&format!("{folder}/memory.current")).unwrap_or(0);
            let left = most.saturating_sub(used);
            rest = Some(rest.map_or(left, |rest| rest.min(left)));
        }
        group = (!path.is_empty()).then(|| path.rsplit_once('/').map_or("", |(above, _)| above));
    }
    rest
}

/// A file that holds one number; `max` is none.
fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
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
            shared.remedy.contains("--private-fds --workers 51"),
            "{}",
            shared.remedy
        );
        assert!(!private.remedy.contains("--workers"), "{}", private.remedy);
        let few = descriptors(20_000, 20_000, 4, true);
        assert!(
            few.remedy.contains("or --workers 51 for a million"),
            "{}",
            few.remedy
        );
        // No worker count is promised where none would do.
        let tiny = descriptors(100, 100, 64, false);
        assert_eq!(
            (tiny.connections, tiny.remedy.contains("private")),
            (0, false)
        );
    }

    #[test]
    fn memory_is_what_the_kernel_says_is_available() {
        let text = "MemTotal: 100 kB\nMemFree: 5 kB\nMemAvailable:     42 kB\n";
        assert_eq!(available(text), Some(43_008));
        assert_eq!(available("MemTotal: 100 kB\n"), None);
    }
}
