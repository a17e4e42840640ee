//! What the machine says: one struct, read in one go, below a root that a test may fake.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit};
use serde::Serialize;

/// A control group's limit below this is one; the kernel writes huge numbers for none.
const LIMIT_MOST: u64 = 1 << 60;

/// Everything the doctor looks at. What could not be read is `None` and judged as unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Readings {
    /// Descriptors of a table, as they are.
    pub descriptors_soft: u64,
    /// Descriptors of a table, as far as a process may raise them itself.
    pub descriptors_hard: u64,
    /// Descriptors of a table, as far as root may raise them: `fs.nr_open`.
    pub descriptors_ceiling: Option<u64>,
    /// Files that all processes may have open: `fs.file-max`.
    pub files_max: Option<u64>,
    /// Files that are open: `fs.file-nr`.
    pub files_open: Option<u64>,
    /// First and last port of outgoing connections.
    pub ports: Option<(u64, u64)>,
    /// Ports that are not given to outgoing connections, as the kernel writes them.
    pub ports_reserved: String,
    /// Longest accept queue: `net.core.somaxconn`.
    pub accept_queue: Option<u64>,
    /// Handshakes under way: `net.ipv4.tcp_max_syn_backlog`.
    pub handshakes: Option<u64>,
    /// `net.ipv4.tcp_syncookies`.
    pub syncookies: Option<u64>,
    /// Connections that a firewall keeps track of, and at most; nothing when none is loaded.
    pub tracked: Option<(u64, u64)>,
    /// `net.ipv4.tcp_mem`: pages at rest, under pressure, at most.
    pub tcp_memory: Option<[u64; 3]>,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// `net.ipv4.tcp_rmem`: bytes at least, at first, at most.
    pub receive_buffer: Option<[u64; 3]>,
    /// `net.ipv4.tcp_wmem`.
    pub send_buffer: Option<[u64; 3]>,
    /// `net.ipv4.tcp_tw_reuse`.
    pub reuse: Option<u64>,
    /// `net.ipv4.tcp_max_tw_buckets`: connections that may wait for late segments.
    pub time_waits_max: Option<u64>,
    /// `net.ipv4.tcp_max_orphans`: connections without a process that may wait to be acknowledged.
    pub orphans_max: Option<u64>,
    /// `net.core.netdev_max_backlog`: packets that may wait for a processor.
    pub device_queue: Option<u64>,
    /// `net.core.rmem_max`: bytes of a receive buffer that a program may ask for.
    pub receive_buffer_asked: Option<u64>,
    /// `net.core.wmem_max`: bytes of a send buffer that a program may ask for.
    pub send_buffer_asked: Option<u64>,
    /// Memory of the machine.
    pub memory_total: Option<u64>,
    /// Memory that programs can still get.
    pub memory_available: Option<u64>,
    /// Memory that the kernel keeps free: `vm.min_free_kbytes`.
    pub memory_reserve: Option<u64>,
    /// Swap space of the machine.
    pub swap_total: Option<u64>,
    /// `vm.swappiness`.
    pub swappiness: Option<u64>,
    /// The tightest control group above this process.
    pub group: Option<ControlGroup>,
    /// The word that is chosen in `transparent_hugepage/enabled`.
    pub huge_pages: Option<String>,
    /// `vm.overcommit_memory`.
    pub overcommit: Option<u64>,
    /// Bytes that may still be promised where overcommit is strict.
    pub commit_left: Option<u64>,
}

/// A control group with a limit on memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlGroup {
    /// The file that holds the limit.
    pub file: PathBuf,
    /// The limit.
    pub limit: u64,
    /// What is left: the limit without what is used and cannot be given back.
    pub left: u64,
}

/// Memory that a process may use, and what says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// How much there is.
    pub bytes: u64,
    /// The file of a control group that has less than the machine.
    pub group: Option<PathBuf>,
}

impl MemoryLimit {
    /// Reads that of this process: the memory of the machine, or the lowest limit of the control
    /// groups that the process is in. `None` if the kernel does not say.
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
        // Of equal ones the first: a group that allows all of the machine is no limit.
        machine
            .into_iter()
            .chain(groups)
            .min_by_key(|limit| limit.bytes)
    }
}

impl Readings {
    /// Reads the machine this runs on.
    pub fn of_machine() -> Self {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        Self {
            descriptors_soft: soft,
            descriptors_hard: hard,
            ..Self::below(Path::new("/"))
        }
    }

    /// Reads the files of a machine below `root`; the limits of the process are not among them.
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

    /// Memory that is there for connections, and the control group where that is what binds.
    pub fn memory_left(&self) -> Option<(u64, Option<&ControlGroup>)> {
        let available = self.memory_available?;
        Some(match &self.group {
            Some(group) if group.left < available => (group.left, Some(group)),
            _ => (available, None),
        })
    }

    /// How many ports an outgoing connection has to choose from, for each address.
    pub fn ports_count(&self) -> Option<u64> {
        self.ports
            .and_then(|(first, last)| (last + 1).checked_sub(first))
    }
}

/// Files below a root.
struct Tree<'a>(&'a Path);

impl Tree<'_> {
    /// The text of a file; none when it cannot be read.
    fn text(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_default()
    }

    /// The numbers of a kernel setting.
    fn settings(&self, name: &str) -> Option<Vec<u64>> {
        let path = Path::new("proc/sys").join(name.replace('.', "/"));
        let text = fs::read_to_string(self.0.join(path)).ok()?;
        text.split_whitespace()
            .map(|word| word.parse().ok())
            .collect()
    }

    /// The tightest limit among the control groups that this process is in.
    fn group(&self) -> Option<ControlGroup> {
        self.groups().into_iter().min_by_key(|group| group.left)
    }

    /// The limits of the control groups that this process is in, of either version.
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

    /// The limits of a group and of all above it. A container may see only its own group, at the
    /// top of what is mounted.
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
                // Pages of files that nobody has used lately go first when memory is short.
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

/// The number that follows `name` at the start of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}
