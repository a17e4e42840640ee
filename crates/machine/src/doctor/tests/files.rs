//! Readings and changes of files in a directory that stands in for a machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::Remedy;
use super::super::apply::{apply, revert};
use super::super::readings::{MemoryLimit, Readings};

/// Temporary directory, removed with its test.
struct Machine(PathBuf);

impl Machine {
    fn with(files: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("encke-doctor-{}-{number}", std::process::id());
        let machine = Self(std::env::temp_dir().join(name));
        for (path, text) in files {
            let path = machine.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        machine
    }

    fn read(&self, path: impl AsRef<Path>) -> String {
        fs::read_to_string(self.0.join(path))
            .unwrap()
            .trim()
            .to_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const QUEUE: &str = "proc/sys/net/core/somaxconn";
const TCP_MEMORY: &str = "proc/sys/net/ipv4/tcp_mem";

#[test]
fn files_are_read() {
    let machine = Machine::with(&[
        (
            "proc/meminfo",
            "MemTotal: 2 kB\nMemAvailable: 1 kB\nCommitLimit: 5 kB\nCommitted_AS: 3 kB\n\
             SwapTotal: 7 kB\n",
        ),
        ("proc/sys/vm/min_free_kbytes", "45\n"),
        ("proc/sys/vm/swappiness", "60\n"),
        ("proc/sys/net/core/netdev_max_backlog", "1000\n"),
        ("proc/sys/net/core/rmem_max", "11\n"),
        ("proc/sys/net/core/wmem_max", "12\n"),
        ("proc/sys/net/ipv4/tcp_max_tw_buckets", "13\n"),
        ("proc/sys/net/ipv4/tcp_max_orphans", "14\n"),
        ("proc/sys/fs/file-nr", "1024\t0\t4000\n"),
        ("proc/sys/fs/file-max", "9223372036854775807\n"),
        (QUEUE, "4096\n"),
        (TCP_MEMORY, "1\t2\t3\n"),
        ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
        ("proc/sys/net/ipv4/ip_local_reserved_ports", "8000\n"),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        ),
    ]);
    let readings = Readings::below(&machine.0);
    assert_eq!(
        (readings.memory_total, readings.memory_available),
        (Some(2048), Some(1024))
    );
    assert_eq!(readings.commit_left, Some(2048));
    assert_eq!(
        (readings.memory_reserve, readings.swap_total),
        (Some(45 * 1024), Some(7 * 1024))
    );
    assert_eq!(
        (readings.swappiness, readings.device_queue),
        (Some(60), Some(1000))
    );
    assert_eq!(
        (readings.receive_buffer_asked, readings.send_buffer_asked),
        (Some(11), Some(12))
    );
    assert_eq!(readings.time_waits_max, Some(13));
    assert_eq!(readings.orphans_max, Some(14));
    assert_eq!(
        (readings.files_open, readings.files_max),
        (Some(1024), Some(i64::MAX as u64))
    );
    assert_eq!(
        (readings.accept_queue, readings.tcp_memory),
        (Some(4096), Some([1, 2, 3]))
    );
    assert_eq!(
        (readings.ports, readings.ports_count()),
        (Some((32_768, 60_999)), Some(28_232))
    );
    assert_eq!(readings.ports_reserved, "8000");
    assert_eq!(readings.huge_pages.as_deref(), Some("madvise"));
    assert_eq!((readings.tracked, readings.group), (None, None));
}

#[test]
fn the_tightest_control_group_of_either_version_is_found() {
    let second = Machine::with(&[
        ("proc/self/cgroup", "0::/a/b\n"),
        ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ("sys/fs/cgroup/a/memory.max", "1000000\n"),
        ("sys/fs/cgroup/a/memory.current", "600000\n"),
        (
            "sys/fs/cgroup/a/memory.stat",
            "anon 5\ninactive_file 100000\n",
        ),
    ]);
    let group = Readings::below(&second.0).group.unwrap();
    assert_eq!((group.limit, group.left), (1_000_000, 500_000));
    assert!(group.file.ends_with("a/memory.max"));
    let first = Machine::with(&[
        ("proc/self/cgroup", "5:cpu:/c\n4:memory:/c\n0::/\n"),
        // In a container the group is not mounted below its own name, but as the root.
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", "500\n"),
    ]);
    assert_eq!(Readings::below(&first.0).group.unwrap().left, 1500);
    let none = Machine::with(&[
        ("proc/self/cgroup", "4:memory:/\n"),
        (
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        ),
    ]);
    assert_eq!(Readings::below(&none.0).group, None);
}

#[test]
fn the_limit_of_a_process_is_the_lowest_of_machine_and_control_groups() {
    let meminfo = ("proc/meminfo", "MemTotal:    4 kB\nMemAvailable: 1 kB\n");
    let machine = |files: &[(&str, &str)]| Machine::with(&[&[meminfo], files].concat());
    let limit = |machine: &Machine| {
        let limit = MemoryLimit::below(&machine.0).unwrap();
        let group = limit.group.map(|file| file.display().to_string());
        (limit.bytes, group)
    };
    let inner = machine(&[
        ("proc/self/cgroup", "0::/a/b\n"),
        // The group with less left is not the one with the lower limit.
        ("sys/fs/cgroup/a/b/memory.max", "2000\n"),
        ("sys/fs/cgroup/a/memory.max", "3000\n"),
        ("sys/fs/cgroup/a/memory.current", "2999\n"),
    ]);
    let file = "/sys/fs/cgroup/a/b/memory.max".to_owned();
    assert_eq!(limit(&inner), (2000, Some(file)));
    let first = machine(&[
        ("proc/self/cgroup", "4:memory:/c\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000\n"),
    ]);
    assert_eq!(limit(&first).0, 4000);
    let larger = machine(&[
        ("proc/self/cgroup", "4:memory:/\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "4097\n"),
    ]);
    assert_eq!(limit(&larger), (4096, None));
    assert_eq!(limit(&machine(&[])), (4096, None));
    assert_eq!(MemoryLimit::below(&Machine::with(&[]).0), None);
}

#[test]
fn changes_are_applied_and_reverted() {
    let enabled = "sys/kernel/mm/transparent_hugepage/enabled";
    let machine = Machine::with(&[
        (QUEUE, "128\n"),
        (TCP_MEMORY, "1\t2\t3\n"),
        (enabled, "always\n"),
    ]);
    let remedies = [
        Remedy::setting("net.core.somaxconn", 4096),
        Remedy::advice("more memory"),
        Remedy::setting("net.ipv4.tcp_mem", "4 5 6"),
        Remedy::Switch {
            path: "/sys/kernel/mm/transparent_hugepage/enabled",
            word: "madvise",
        },
    ];
    let changes = apply(remedies.iter(), &machine.0).made;
    assert_eq!(
        (machine.read(QUEUE), machine.read(TCP_MEMORY)),
        ("4096".into(), "4 5 6".into())
    );
    let undo: Vec<&str> = changes.iter().map(|change| change.undo.as_str()).collect();
    assert_eq!(
        undo,
        [
            "sysctl -w net.core.somaxconn=128",
            "sysctl -w net.ipv4.tcp_mem=\"1 2 3\"",
            "echo always > /sys/kernel/mm/transparent_hugepage/enabled",
        ]
    );
    revert(&changes).unwrap();
    assert_eq!(
        (machine.read(QUEUE), machine.read(TCP_MEMORY)),
        ("128".into(), "1 2 3".into())
    );
    assert_eq!(machine.read(enabled), "always");
}

#[test]
fn a_refused_change_leaves_earlier_changes_in_place() {
    let machine = Machine::with(&[(QUEUE, "128\n")]);
    let remedies = [
        Remedy::setting("net.core.somaxconn", 4096),
        Remedy::setting("net.ipv4.tcp_mem", "4 5 6"),
    ];
    let applied = apply(remedies.iter(), &machine.0);
    let why = applied.refused.unwrap().to_string();
    assert!(
        why.starts_with("`sysctl -w net.ipv4.tcp_mem=\"4 5 6\"` was refused"),
        "{why}"
    );
    assert_eq!(applied.made[0].undo, "sysctl -w net.core.somaxconn=128");
    fs::remove_dir_all(&machine.0).unwrap();
    let error = revert(&applied.made).unwrap_err().to_string();
    assert!(
        error.contains("sysctl -w net.core.somaxconn=128"),
        "{error}"
    );
}

#[test]
fn a_setting_that_was_empty_is_empty_again() {
    const PORTS: &str = "proc/sys/net/ipv4/ip_local_reserved_ports";
    let machine = Machine::with(&[(PORTS, "\n")]);
    let remedy = Remedy::setting("net.ipv4.ip_local_reserved_ports", "8000,8001");
    let applied = apply(std::iter::once(&remedy), &machine.0);
    assert_eq!(machine.read(PORTS), "8000,8001");
    revert(&applied.made).unwrap();
    assert_eq!(machine.read(PORTS), "");
}
