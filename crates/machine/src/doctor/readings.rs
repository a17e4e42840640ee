//! Readings of the machine: one struct, read at once from below a root directory that a test may
//! fake.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};
use serde::Serialize;

use crate::host::number_after;

/// Values from this on mean that a control group has no limit; the kernel writes huge numbers then.
const LIMIT_MOST: u64 = 1 << 60;

/// Everything that the doctor checks. What could not be read is `None` and gives no finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Readings {
    /// Soft limit on the descriptors of a table.
    pub descriptors_soft: u64,
    /// Hard limit: a process may raise its soft limit up to this.
    pub descriptors_hard: u64,
    /// Limit up to which root may raise the hard limit: `fs.nr_open`.
    pub descriptors_ceiling: Option<u64>,
    /// Limit on the open files of all processes: `fs.file-max`.
    pub files_max: Option<u64>,
    /// Open files of all processes: `fs.file-nr`.
    pub files_open: Option<u64>,
    /// First and last port of outgoing connections.
    pub ports: Option<(u64, u64)>,
    /// Ports that outgoing connections may not use, as the kernel writes them.
    pub ports_reserved: String,
    /// Longest accept queue: `net.core.somaxconn`.
    pub accept_queue: Option<u64>,
    /// Limit on handshakes under way: `net.ipv4.tcp_max_syn_backlog`.
    pub handshakes: Option<u64>,
    /// `net.ipv4.tcp_syncookies`.
    pub syncookies: Option<u64>,
    /// Connections that a firewall tracks, and the limit; `None` if no such firewall is loaded.
    pub tracked: Option<(u64, u64)>,
    /// `net.ipv4.tcp_mem` in pages: low, pressure, high.
    pub tcp_memory: Option<[u64; 3]>,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// `net.ipv4.tcp_rmem` in bytes: minimum, default, maximum.
    pub receive_buffer: Option<[u64; 3]>,
    /// `net.ipv4.tcp_wmem` in bytes: minimum, default, maximum.
    pub send_buffer: Option<[u64; 3]>,
    /// `net.ipv4.tcp_tw_reuse`.
    pub reuse: Option<u64>,
    /// `net.ipv4.tcp_max_tw_buckets`: limit on connections in TIME_WAIT.
    pub time_waits_max: Option<u64>,
    /// `net.ipv4.tcp_max_orphans`: limit on connections without a process.
    pub orphans_max: Option<u64>,
    /// `net.core.netdev_max_backlog`: limit on unprocessed packets of each processor.
    pub device_queue: Option<u64>,
    /// `net.core.rmem_max`: largest receive buffer that a program may request, in bytes.
    pub receive_buffer_asked: Option<u64>,
    /// `net.core.wmem_max`: largest send buffer that a program may request, in bytes.
    pub send_buffer_asked: Option<u64>,
    /// Memory of the machine in bytes.
    pub memory_total: Option<u64>,
    /// Memory available to programs, in bytes.
    pub memory_available: Option<u64>,
    /// Memory that the kernel keeps free (`vm.min_free_kbytes`), in bytes.
    pub memory_reserve: Option<u64>,
    /// Swap space of the machine in bytes.
    pub swap_total: Option<u64>,
    /// `vm.swappiness`.
    pub swappiness: Option<u64>,
    /// The control group of this process, or one above it, that has the least memory left.
    pub group: Option<ControlGroup>,
    /// The chosen word in `transparent_hugepage/enabled`.
    pub huge_pages: Option<String>,
    /// `vm.overcommit_memory`.
    pub overcommit: Option<u64>,
    /// Bytes that may still be committed if overcommit is strict.
    pub commit_left: Option<u64>,
}

/// Control group with a memory limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlGroup {
    /// File with the limit.
    pub file: PathBuf,
    /// Limit in bytes.
    pub limit: u64,
    /// Bytes left: the limit minus what is used and cannot be reclaimed.
    pub left: u64,
}

/// Memory that a process may use, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Limit in bytes.
    pub bytes: u64,
    /// File with the limit of a control group, if that is lower than the machine's memory.
    pub group: Option<PathBuf>,
}

impl MemoryLimit {
    /// Reads the limit of this process: the memory of the machine, or the lowest limit of its
    /// control groups. `None` if the kernel reports neither.
    pub fn of_process() -> Option<Self> {
        Self::below(Path::new("/"))
    }

    /// Reads the files below `root`.
    pub fn below(root: &Path) -> Option<Self> {
        let tree = Tree(root);
        let total = number_after(&tree.text("proc/meminfo"), "MemTotal:");
        let machine = total.map(|kibibytes| Self {
            bytes: kibibytes * 1024,
            group: None,
        });
        let groups = tree.groups().into_iter().map(|group| Self {
            bytes: group.limit,
            group: Some(group.file),
        });
        // `min_by_key` returns the first of equals: a group that allows all of the machine's memory
        // is no limit.
        machine
            .into_iter()
            .chain(groups)
            .min_by_key(|limit| limit.bytes)
    }
}

impl Readings {
    /// Reads this machine.
    pub fn of_machine() -> Self {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        Self {
            descriptors_soft: soft,
            descriptors_hard: hard,
            ..Self::below(Path::new("/"))
        }
    }

    /// Reads the files of a machine below `root`. The limits of the process are not among them.
    pub fn below(root: &Path) -> Self {
        let tree = Tree(root);
        let number = |name: &str| tree.settings(name)?.first().copied();
        let three = |name: &str| tree.settings(name)?.try_into().ok();
        let meminfo = tree.text("proc/meminfo");
        let memory = |name: &str| Some(number_after(&meminfo, name)? * 1024);
        Self {
            descriptors_soft: 0,
            descriptors_hard: 0,
            descriptors_ceiling: number("fs.nr_open"),
            files_max: number("fs.file-max"),
            files_open: number("fs.file-nr"),
            ports: tree
                .settings("net.ipv4.ip_local_port_range")
                .and_then(|bounds| Some((*bounds.first()?, *bounds.get(1)?))),
            ports_reserved: tree
                .text("proc/sys/net/ipv4/ip_local_reserved_ports")
                .trim()
                .to_owned(),
            accept_queue: number("net.core.somaxconn"),
            handshakes: number("net.ipv4.tcp_max_syn_backlog"),
            syncookies: number("net.ipv4.tcp_syncookies"),
            tracked: number("net.netfilter.nf_conntrack_count")
                .zip(number("net.netfilter.nf_conntrack_max")),
            tcp_memory: three("net.ipv4.tcp_mem"),
            page_bytes: rustix::param::page_size() as u64,
            receive_buffer: three("net.ipv4.tcp_rmem"),
            send_buffer: three("net.ipv4.tcp_wmem"),
            reuse: number("net.ipv4.tcp_tw_reuse"),
            time_waits_max: number("net.ipv4.tcp_max_tw_buckets"),
            orphans_max: number("net.ipv4.tcp_max_orphans"),
            device_queue: number("net.core.netdev_max_backlog"),
            receive_buffer_asked: number("net.core.rmem_max"),
            send_buffer_asked: number("net.core.wmem_max"),
            memory_total: memory("MemTotal:"),
            memory_available: memory("MemAvailable:"),
            memory_reserve: number("vm.min_free_kbytes").map(|kibibytes| kibibytes * 1024),
            swap_total: memory("SwapTotal:"),
            swappiness: number("vm.swappiness"),
            group: tree.group(),
            huge_pages: chosen(&tree.text("sys/kernel/mm/transparent_hugepage/enabled")),
            overcommit: number("vm.overcommit_memory"),
            commit_left: memory("CommitLimit:")
                .zip(memory("Committed_AS:"))
                .map(|(limit, promised)| limit.saturating_sub(promised)),
        }
    }

    /// Returns the memory available for connections, and the control group if that is the limit.
    pub fn memory_left(&self) -> Option<(u64, Option<&ControlGroup>)> {
        let available = self.memory_available?;
        Some(match &self.group {
            Some(group) if group.left < available => (group.left, Some(group)),
            _ => (available, None),
        })
    }

    /// Returns the number of ports for outgoing connections, for each address.
    pub fn ports_count(&self) -> Option<u64> {
        self.ports
            .and_then(|(first, last)| (last + 1).checked_sub(first))
    }
}

/// Files below a root directory.
struct Tree<'a>(&'a Path);

impl Tree<'_> {
    /// Reads a file; empty if it cannot be read.
    fn text(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_default()
    }

    /// Reads the numbers of a kernel setting.
    fn settings(&self, name: &str) -> Option<Vec<u64>> {
        let path = Path::new("proc/sys").join(name.replace('.', "/"));
        let text = fs::read_to_string(self.0.join(path)).ok()?;
        text.split_whitespace()
            .map(|word| word.parse().ok())
            .collect()
    }

    /// Returns the control group of this process that has the least memory left.
    fn group(&self) -> Option<ControlGroup> {
        self.groups().into_iter().min_by_key(|group| group.left)
    }

    /// Returns the control groups of this process that have a limit, of both cgroup versions.
    fn groups(&self) -> Vec<ControlGroup> {
        let groups = self.text("proc/self/cgroup");
        let found = groups.lines().flat_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
            if controllers.is_empty() {
                self.walk("sys/fs/cgroup", path, ["memory.max", "memory.current"])
            } else if controllers.split(',').any(|name| name == "memory") {
                let files = ["memory.limit_in_bytes", "memory.usage_in_bytes"];
                self.walk("sys/fs/cgroup/memory", path, files)
            } else {
                Vec::new()
            }
        });
        found.collect()
    }

    /// Returns the limits of a group and of all above it. In a container the mount may show only
    /// its own group, as the root.
    fn walk(&self, mount: &str, path: &str, [limit, used]: [&str; 2]) -> Vec<ControlGroup> {
        let mount = Path::new(mount);
        let below = Path::new(path.trim_start_matches('/'));
        below
            .ancestors()
            .filter_map(|below| {
                let folder = mount.join(below);
                let number = |name: &str| self.text(folder.join(name)).trim().parse::<u64>().ok();
                let most = number(limit).filter(|&most| most < LIMIT_MOST)?;
                let stat = self.text(folder.join("memory.stat"));
                // Inactive file pages are reclaimed first when memory is short.
                let idle = number_after(&stat, "inactive_file ").unwrap_or(0);
                let used = number(used).unwrap_or(0).saturating_sub(idle);
                Some(ControlGroup {
                    file: Path::new("/").join(folder.join(limit)),
                    limit: most,
                    left: most.saturating_sub(used),
                })
            })
            .collect()
    }
}

/// Returns the word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}
