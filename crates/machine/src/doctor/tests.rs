//! The doctor on fake machines: each finding with and without a problem.

mod files;

use super::readings::{ControlGroup, Readings};
use super::{Diagnosis, Finding, Remedy, Severity, Workload, settings};

const GIB: u64 = 1 << 30;

const MILLION: Workload = Workload {
    connections: 1_000_000,
    workers: 64,
    private_fds: true,
    both_ends: false,
};

/// Readings of a machine that is ready for a million connections.
fn healthy() -> Readings {
    Readings {
        descriptors_soft: 20_000,
        descriptors_hard: 20_000,
        descriptors_ceiling: Some(1 << 20),
        files_max: Some(4_000_000),
        files_open: Some(1000),
        ports: Some((10_240, 65_535)),
        ports_reserved: String::new(),
        accept_queue: Some(4096),
        handshakes: Some(2048),
        syncookies: Some(1),
        tracked: None,
        tcp_memory: Some([1_000_000, 1_500_000, 2_000_000]),
        page_bytes: 4096,
        receive_buffer: Some([4096, 131_072, 6_291_456]),
        send_buffer: Some([4096, 16_384, 262_144]),
        reuse: Some(2),
        time_waits_max: Some(262_144),
        orphans_max: Some(1_000_000),
        device_queue: Some(4096),
        receive_buffer_asked: Some(212_992),
        send_buffer_asked: Some(262_144),
        memory_total: Some(16 * GIB),
        memory_available: Some(15 * GIB),
        memory_reserve: Some(128 << 20),
        swap_total: Some(0),
        swappiness: Some(60),
        group: None,
        huge_pages: Some("madvise".to_owned()),
        overcommit: Some(0),
        commit_left: Some(0),
    }
}

#[track_caller]
fn finding(readings: &Readings, wanted: Workload, name: &str) -> Finding {
    let diagnosis = Diagnosis::of(readings, wanted);
    let mut found = diagnosis.findings.into_iter();
    found
        .find(|finding| finding.name == name)
        .expect("it is looked at")
}

/// Returns the finding `name` on a healthy machine after `change`.
#[track_caller]
fn after(name: &str, change: impl FnOnce(&mut Readings)) -> Finding {
    let mut readings = healthy();
    let before = finding(&readings, MILLION, name);
    assert_eq!(
        (before.level, before.remedies.len()),
        (Severity::Ok, 0),
        "{before:?}"
    );
    change(&mut readings);
    finding(&readings, MILLION, name)
}

#[track_caller]
fn expect(finding: &Finding, level: Severity, commands: &[&str]) {
    assert_eq!(finding.level, level, "{finding:?}");
    let given: Vec<String> = finding.remedies.iter().map(Remedy::command).collect();
    assert_eq!(given, commands, "{finding:?}");
    for sentence in [&finding.found, &finding.needed, finding.why] {
        assert!(!sentence.is_empty(), "{finding:?}");
    }
}

#[test]
fn a_healthy_machine_needs_no_change() {
    let diagnosis = Diagnosis::of(&healthy(), MILLION);
    assert!(diagnosis.well);
    assert_eq!(diagnosis.count(Severity::Ok), diagnosis.findings.len());
    assert_eq!(diagnosis.changes().count(), 0);
    assert!(diagnosis.sysctl_conf().contains("No setting has to change"));
}

#[test]
fn a_machine_with_the_minimum_settings_needs_no_change() {
    for (connections, both_ends) in [(1, false), (100, true), (20_000, false), (1_000_000, true)] {
        let wanted = Workload {
            connections,
            workers: 2,
            private_fds: false,
            both_ends,
        };
        let needed = settings::needed(wanted, 16 * GIB);
        let numbers = |name: &str| -> Vec<u64> {
            let setting = needed.iter().find(|setting| setting.name == name);
            let value = &setting.expect("it is needed").value;
            value.split(' ').map(|part| part.parse().unwrap()).collect()
        };
        let number = |name| Some(numbers(name)[0]);
        let readings = Readings {
            descriptors_ceiling: number("fs.nr_open"),
            files_max: number("fs.file-max"),
            files_open: Some(0),
            accept_queue: number("net.core.somaxconn"),
            handshakes: number("net.ipv4.tcp_max_syn_backlog"),
            tracked: Some((0, numbers("net.netfilter.nf_conntrack_max")[0])),
            tcp_memory: numbers("net.ipv4.tcp_mem").try_into().ok(),
            time_waits_max: number("net.ipv4.tcp_max_tw_buckets"),
            orphans_max: number("net.ipv4.tcp_max_orphans"),
            device_queue: number("net.core.netdev_max_backlog"),
            receive_buffer_asked: number("net.core.rmem_max"),
            send_buffer_asked: number("net.core.wmem_max"),
            memory_reserve: number("vm.min_free_kbytes").map(|kibibytes| kibibytes * 1024),
            ..healthy()
        };
        let diagnosis = Diagnosis::of(&readings, wanted);
        let changes: Vec<_> = diagnosis.changes().collect();
        assert!(changes.is_empty(), "{connections}: {changes:?}");
    }
}

#[test]
fn the_worst_finding_comes_first_and_decides() {
    let mut readings = healthy();
    readings.reuse = Some(0);
    let better = Diagnosis::of(&readings, MILLION);
    assert!(better.well && better.findings[0].name == "time-wait");
    readings.files_max = Some(1000);
    let stopped = Diagnosis::of(&readings, MILLION);
    assert!(!stopped.well);
    assert_eq!(stopped.findings[0].name, "open files");
    assert_eq!(stopped.findings[1].name, "time-wait");
}

#[test]
fn private_tables_are_proposed_if_they_help() {
    let shared = Workload {
        private_fds: false,
        workers: 2,
        ..MILLION
    };
    let found = finding(&healthy(), shared, "descriptors");
    assert_eq!(found.level, Severity::Blocker);
    let first = found.remedies[0].command();
    assert!(
        first.starts_with("encke serve --private-fds --workers 5"),
        "{first}"
    );
    assert!(found.remedies[1].command().contains("LimitNOFILE=1000072"));
    // The soft limit does not matter: the server raises it itself.
    let lax = after("descriptors", |readings| readings.descriptors_soft = 1024);
    expect(&lax, Severity::Ok, &[]);
    let few = after("descriptors", |readings| readings.descriptors_hard = 10);
    assert_eq!(few.remedies.len(), 1, "no number of workers helps: {few:?}");
    // Not even root may raise a limit beyond the ceiling.
    let mut readings = healthy();
    readings.descriptors_ceiling = Some(65_536);
    let low = finding(&readings, shared, "descriptor ceiling");
    expect(&low, Severity::Advice, &["sysctl -w fs.nr_open=1000072"]);
    readings.descriptors_ceiling = Some(1 << 20);
    assert_eq!(
        finding(&readings, shared, "descriptor ceiling").level,
        Severity::Ok
    );
}

#[test]
fn open_files_count_both_ends() {
    let found = after("open files", |readings| {
        readings.files_max = Some(1_001_000)
    });
    expect(
        &found,
        Severity::Blocker,
        &["sysctl -w fs.file-max=1021000"],
    );
    let mut readings = healthy();
    readings.files_max = Some(1_500_000);
    assert_eq!(
        finding(&readings, MILLION, "open files").level,
        Severity::Ok
    );
    let both = Workload {
        both_ends: true,
        ..MILLION
    };
    assert_eq!(
        finding(&readings, both, "open files").level,
        Severity::Blocker
    );
}

#[test]
fn predicted_memory_is_compared_with_available_memory() {
    let found = after("memory", |readings| {
        readings.memory_available = Some(3 * GIB)
    });
    expect(
        &found,
        Severity::Blocker,
        &["more memory, or fewer connections"],
    );
    assert!(
        found.needed.contains("3.8 GiB for the kernel's sockets"),
        "{}",
        found.needed
    );
    let tight = after("memory", |readings| {
        readings.memory_available = Some(9 * GIB / 2)
    });
    assert_eq!(tight.level, Severity::Advice);
    let both = Workload {
        both_ends: true,
        ..MILLION
    };
    assert!(
        finding(&healthy(), both, "memory")
            .needed
            .starts_with("8 GiB")
    );
}

#[test]
fn a_control_group_with_less_memory_is_the_limit() {
    let group = |left| {
        Some(ControlGroup {
            file: "/sys/fs/cgroup/memory.max".into(),
            limit: 4 * GIB,
            left,
        })
    };
    let found = after("control group", |readings| readings.group = group(GIB));
    assert_eq!(found.level, Severity::Blocker);
    assert!(
        found.remedies[0].command().starts_with("MemoryMax="),
        "{found:?}"
    );
    assert!(found.found.contains("memory.max"));
    let wide = after("control group", |readings| {
        readings.group = group(100 * GIB);
    });
    assert_eq!(wide.level, Severity::Ok);
}

#[test]
fn an_event_to_all_clients_fits_into_the_queues() {
    let found = after("TCP memory", |readings| {
        readings.tcp_memory = Some([1, 2, 900_000])
    });
    expect(
        &found,
        Severity::Blocker,
        &["sysctl -w net.ipv4.tcp_mem=\"1000000 1500000 2000000\""],
    );
    let pressed = after("TCP memory", |readings| {
        readings.tcp_memory = Some([1, 2, 1_000_000]);
    });
    assert_eq!(pressed.level, Severity::Advice);
}

#[test]
fn clients_that_do_not_read_pin_their_buffers() {
    let found = after("socket buffers", |readings| {
        readings.send_buffer = Some([4096, 16_384, 4_194_304]);
    });
    expect(
        &found,
        Severity::Advice,
        &["sysctl -w net.ipv4.tcp_wmem=\"4096 16384 262144\""],
    );
}

#[test]
fn network_settings_have_findings_only_if_too_low() {
    let found = after("accept queue", |readings| readings.accept_queue = Some(128));
    expect(
        &found,
        Severity::Advice,
        &["sysctl -w net.core.somaxconn=4096"],
    );
    let found = after("handshakes", |readings| readings.handshakes = Some(128));
    expect(
        &found,
        Severity::Advice,
        &["sysctl -w net.ipv4.tcp_max_syn_backlog=2048"],
    );
    for mode in [0, 2] {
        let found = after("syncookies", |readings| readings.syncookies = Some(mode));
        expect(
            &found,
            Severity::Advice,
            &["sysctl -w net.ipv4.tcp_syncookies=1"],
        );
    }
    let found = after("time-wait", |readings| readings.reuse = Some(0));
    expect(
        &found,
        Severity::Advice,
        &["sysctl -w net.ipv4.tcp_tw_reuse=2"],
    );
    let found = after("time-wait table", |readings| {
        readings.time_waits_max = Some(65_536);
    });
    expect(
        &found,
        Severity::Advice,
        &["sysctl -w net.ipv4.tcp_max_tw_buckets=262144"],
    );
    let found = after("orphaned connections", |readings| {
        readings.orphans_max = Some(131_072);
    });
    expect(
        &found,
        Severity::Advice,
        &["sysctl -w net.ipv4.tcp_max_orphans=1000000"],
    );
    let found = after("device queue", |readings| {
        readings.device_queue = Some(1000);
    });
    expect(
        &found,
        Severity::Advice,
        &["sysctl -w net.core.netdev_max_backlog=4096"],
    );
    let found = after("ports", |readings| readings.ports = Some((32_768, 60_999)));
    let range = "sysctl -w net.ipv4.ip_local_port_range=\"10240 65535\"";
    expect(&found, Severity::Advice, &[range]);
    assert!(
        found.needed.starts_with("36 source addresses"),
        "{}",
        found.needed
    );
    // Few connections need no long queue.
    let few = Workload {
        connections: 100,
        ..MILLION
    };
    let mut readings = healthy();
    readings.accept_queue = Some(128);
    assert_eq!(finding(&readings, few, "accept queue").level, Severity::Ok);
}

#[test]
fn a_firewall_table_blocks_only_if_it_is_used() {
    let most = |tracked| {
        after("firewall table", |readings| {
            readings.tracked = Some((tracked, 262_144))
        })
    };
    let command = "sysctl -w net.netfilter.nf_conntrack_max=1010007";
    expect(&most(7), Severity::Blocker, &[command]);
    assert_eq!(most(0).level, Severity::Advice);
    let ample = after("firewall table", |readings| {
        readings.tracked = Some((7, 2_000_000))
    });
    assert_eq!(ample.level, Severity::Ok);
}

#[test]
fn ports_of_listeners_must_be_reserved() {
    let wide = |reserved: &str| {
        after("listener ports", |readings| {
            readings.ports = Some((1024, 65_535));
            readings.ports_reserved = reserved.to_owned();
        })
    };
    let set = |ports| format!("sysctl -w net.ipv4.ip_local_reserved_ports={ports}");
    expect(&wide(""), Severity::Advice, &[&set("8000,8001")]);
    expect(&wide("9000"), Severity::Advice, &[&set("9000,8000,8001")]);
    expect(
        &wide("7000-8000"),
        Severity::Advice,
        &[&set("7000-8000,8001")],
    );
    expect(&wide("7000-8001"), Severity::Ok, &[]);
}

#[test]
fn memory_settings_have_findings_only_if_too_low() {
    let found = after("huge pages", |readings| {
        readings.huge_pages = Some("always".to_owned())
    });
    let command = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
    expect(&found, Severity::Advice, &[command]);
    let found = after("buffers asked for", |readings| {
        readings.send_buffer_asked = Some(212_992);
    });
    expect(
        &found,
        Severity::Advice,
        &["sysctl -w net.core.wmem_max=262144"],
    );
    let found = after("buffers asked for", |readings| {
        readings.receive_buffer_asked = Some(4096);
    });
    expect(
        &found,
        Severity::Advice,
        &["sysctl -w net.core.rmem_max=212992"],
    );
    let found = after("free memory", |readings| {
        readings.memory_reserve = Some(64 << 20);
    });
    expect(
        &found,
        Severity::Advice,
        &["sysctl -w vm.min_free_kbytes=125000"],
    );
    // A small machine reserves one fiftieth of its memory, however many connections are wanted.
    let small = after("free memory", |readings| {
        readings.memory_total = Some(GIB);
        readings.memory_reserve = Some(GIB / 50);
    });
    assert_eq!(small.level, Severity::Ok);
    let found = after("swap", |readings| readings.swap_total = Some(GIB));
    expect(&found, Severity::Advice, &["sysctl -w vm.swappiness=10"]);
    let calm = after("swap", |readings| {
        readings.swap_total = Some(GIB);
        readings.swappiness = Some(1);
    });
    assert_eq!(calm.level, Severity::Ok);
    let found = after("overcommit", |readings| readings.overcommit = Some(2));
    expect(
        &found,
        Severity::Blocker,
        &["sysctl -w vm.overcommit_memory=0"],
    );
    let roomy = after("overcommit", |readings| {
        readings.overcommit = Some(2);
        readings.commit_left = Some(GIB);
    });
    assert_eq!(roomy.level, Severity::Advice);
}

#[test]
fn the_sysctl_file_gives_reasons() {
    let mut readings = healthy();
    readings.accept_queue = Some(128);
    readings.huge_pages = Some("always".to_owned());
    let text = Diagnosis::of(&readings, MILLION).sysctl_conf();
    let settings: Vec<&str> = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    assert_eq!(settings, ["net.core.somaxconn = 4096"]);
    assert!(
        text.contains("# accept queue: when all clients reconnect"),
        "{text}"
    );
    assert!(text.contains("# Found: 128 wait at most."), "{text}");
}
