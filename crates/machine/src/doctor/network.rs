//! Findings about the network: ports, queues, the firewall and TIME_WAIT.

use super::capacity::{ACCEPT_QUEUE, PORTS_MOST};
use super::readings::Readings;
use super::{Finding, Limit, Remedy, Severity, Workload};
use crate::humanize::count;

/// Device queue that is long enough if clients and server share a machine: when a server ends, the
/// kernel closes its connections and produces packets faster than it processes them, and drops the
/// rest.
const LOOPBACK_QUEUE_ENOUGH: u64 = 262_144;

/// Default ports of the server.
const LISTENERS: [u64; 2] = [8000, 8001];

/// Size of the TIME_WAIT table that is enough when all clients are closed at once.
const TIME_WAITS_ENOUGH: u64 = 262_144;

/// Other connections that a firewall tracks.
const TRACKED_OTHERS: u64 = 10_000;

pub(super) fn findings(readings: &Readings, wanted: &Workload) -> Vec<Finding> {
    [
        tracked(readings, wanted),
        accept_queue(readings, wanted),
        handshakes(readings, wanted),
        syncookies(readings),
        ports(readings, wanted),
        listener_ports(readings),
        time_wait(readings),
        time_wait_table(readings, wanted),
        orphans(readings, wanted),
        device_queue(readings, wanted),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Connection table of a stateful firewall.
fn tracked(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let finding = Finding::new(
        "firewall table",
        "a firewall that tracks connections drops new ones when its table is full",
    );
    let Some((tracked, most)) = readings.tracked else {
        return Some(
            finding
                .found("no firewall tracks connections (nf_conntrack is not loaded)")
                .needed("nothing"),
        );
    };
    // If both ends are on this machine, they are one connection to the firewall.
    let needed = tracked + wanted.connections + TRACKED_OTHERS;
    // If the table is empty, no rule of the firewall uses connection tracking.
    let level = match tracked {
        0 => Severity::Advice,
        _ => Severity::Blocker,
    };
    Some(
        finding
            .found(format!("{} of {} in use", count(tracked), count(most)))
            .needed(format!("{} in all", count(needed)))
            .when(most < needed, level)
            .remedy(|| Remedy::setting("net.netfilter.nf_conntrack_max", needed)),
    )
}

fn accept_queue(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let (found, needed) = (readings.accept_queue?, ACCEPT_QUEUE.min(wanted.connections));
    let limit = Limit {
        name: "accept queue",
        why: "when all clients reconnect at once, handshakes beyond this are dropped and retried a \
               second later",
        unit: "wait at most",
        setting: "net.core.somaxconn",
    };
    Some(limit.check(found, needed))
}

fn handshakes(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    // Half of the accept queue, as a handshake over a network takes about a tenth of a second.
    let needed = (ACCEPT_QUEUE / 2).min(wanted.connections);
    let found = readings.handshakes?;
    let limit = Limit {
        name: "handshakes",
        why: "handshakes beyond this number are answered with SYN cookies, or not at all",
        unit: "at once",
        setting: "net.ipv4.tcp_max_syn_backlog",
    };
    Some(limit.check(found, needed))
}

fn syncookies(readings: &Readings) -> Option<Finding> {
    let mode = readings.syncookies?;
    Some(
        Finding::new(
            "syncookies",
            "without them handshakes are lost when their queue overflows; if they are always \
             sent, connections lose window scaling",
        )
        .found(match mode {
            0 => "never sent".to_owned(),
            1 => "sent when handshakes overflow".to_owned(),
            _ => "always sent".to_owned(),
        })
        .needed("sent when handshakes overflow")
        .when(mode != 1, Severity::Advice)
        .remedy(|| Remedy::setting("net.ipv4.tcp_syncookies", 1)),
    )
}

/// Ports for outgoing connections. They limit clients and proxies, not the server.
fn ports(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let ports = readings.ports_count()?;
    let addresses = wanted.connections.div_ceil(ports.max(1));
    let finding = Finding::new(
        "ports",
        "a client machine or a proxy can open this many connections to one server from each of \
         its addresses; `encke-lab flood` assigns addresses and ports itself",
    )
    .found(format!("{} for each source address", count(ports)))
    .needed(format!(
        "{} source address{} if all clients are on one machine",
        count(addresses),
        if addresses == 1 { "" } else { "es" }
    ))
    .when(
        ports < (PORTS_MOST / 2).min(wanted.connections),
        Severity::Advice,
    );
    Some(finding.remedy(|| Remedy::setting("net.ipv4.ip_local_port_range", "10240 65535")))
}

/// Ports of the listeners. If an outgoing connection uses such a port, the server cannot listen on
/// it.
fn listener_ports(readings: &Readings) -> Option<Finding> {
    let (first, last) = readings.ports?;
    let reserved = reserved(&readings.ports_reserved);
    let at_risk = |port: &u64| {
        let mut ranges = reserved.iter();
        let is_reserved = ranges.any(|&(low, high)| (low..=high).contains(port));
        (first..=last).contains(port) && !is_reserved
    };
    let mut wanted = readings.ports_reserved.clone();
    for port in LISTENERS.iter().filter(|port| at_risk(port)) {
        if !wanted.is_empty() {
            wanted.push(',');
        }
        wanted.push_str(&port.to_string());
    }
    Some(
        Finding::new(
            "listener ports",
            "an outgoing connection may take port 8000 or 8001 while the server is down, which \
             then cannot listen",
        )
        .found(format!(
            "outgoing connections take {first} to {last}, reserved are {}",
            if readings.ports_reserved.is_empty() {
                "none"
            } else {
                &readings.ports_reserved
            }
        ))
        .needed("8000 and 8001 outside that range, or reserved")
        .when(LISTENERS.iter().any(at_risk), Severity::Advice)
        .remedy(|| Remedy::setting("net.ipv4.ip_local_reserved_ports", &wanted)),
    )
}

/// Parses port ranges as the kernel writes them: `8000-8001,9000`.
fn reserved(text: &str) -> Vec<(u64, u64)> {
    text.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
        })
        .collect()
}

fn time_wait(readings: &Readings) -> Option<Finding> {
    let mode = readings.reuse?;
    Some(
        Finding::new(
            "time-wait",
            "otherwise the port of a connection that a client on this machine closed is unusable \
             for a minute",
        )
        .found(match mode {
            0 => "ports are not reused early".to_owned(),
            1 => "ports are reused for new connections".to_owned(),
            _ => "ports are reused on loopback".to_owned(),
        })
        .needed("ports reused, at least on loopback")
        .when(mode == 0, Severity::Advice)
        .remedy(|| Remedy::setting("net.ipv4.tcp_tw_reuse", 2)),
    )
}

/// TIME_WAIT table: connections that this machine closed first.
fn time_wait_table(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let needed = TIME_WAITS_ENOUGH.min(wanted.connections);
    let found = readings.time_waits_max?;
    let limit = Limit {
        name: "time-wait table",
        why: "a server that ends closes all connections, and each stays in TIME_WAIT for a minute; \
               those beyond this many do not, and a late segment may reset a new connection on the \
               same port",
        unit: "wait at most",
        setting: "net.ipv4.tcp_max_tw_buckets",
    };
    Some(limit.check(found, needed))
}

/// Orphans: connections of a server that was killed.
fn orphans(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let (found, needed) = (readings.orphans_max?, wanted.connections);
    let limit = Limit {
        name: "orphaned connections",
        why: "a server that is killed leaves all its connections to the kernel, which repeats the \
               closing packet until each client has acknowledged it; beyond this many it sends it \
               only once, and a client that misses it waits for a server that is gone",
        unit: "at most",
        setting: "net.ipv4.tcp_max_orphans",
    };
    Some(limit.check(found, needed))
}

/// Queue of packets between the network device, or loopback, and TCP.
fn device_queue(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let enough = match wanted.both_ends {
        true => LOOPBACK_QUEUE_ENOUGH,
        false => ACCEPT_QUEUE,
    };
    let (found, needed) = (readings.device_queue?, enough.min(wanted.ends()));
    let limit = Limit {
        name: "device queue",
        why: "unprocessed packets beyond this many are dropped; on loopback, on virtual devices \
               and where one queue serves several processors, a burst of reconnecting clients \
               exceeds it",
        unit: "packets for each processor",
        setting: "net.core.netdev_max_backlog",
    };
    Some(limit.check(found, needed))
}
