//! Ports, queues, firewall and time-waits: what stands between a client and its connection.

use super::capacity::{ACCEPT_QUEUE, PORTS_MOST};
use super::readings::Readings;
use super::{Finding, Remedy, Severity, Workload};
use crate::humanize::count;

/// Packets that may wait for a processor where clients and server share it: while the kernel closes
/// the connections of a server that ended, it produces packets faster than it takes them in, and
/// drops the rest.
const LOOPBACK_QUEUE_ENOUGH: u64 = 262_144;

/// Where servers listen unless told otherwise.
const LISTENERS: [u64; 2] = [8000, 8001];

/// Connections that wait for late segments at once when all clients were closed: more are gone
/// within the minute.
const TIME_WAITS_ENOUGH: u64 = 262_144;

/// Connections that a firewall tracks besides.
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

/// The table of a stateful firewall.
fn tracked(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let finding = Finding::new(
        "firewall table",
        "a firewall that tracks connections drops those that its table has no room for",
    );
    let Some((tracked, most)) = readings.tracked else {
        return Some(
            finding
                .found("no firewall tracks connections (nf_conntrack is not loaded)")
                .needed("nothing"),
        );
    };
    // Both ends on one machine are one connection to the firewall.
    let needed = tracked + wanted.connections + TRACKED_OTHERS;
    // A table without an entry belongs to a firewall that tracks nothing: no rule asks for it.
    let level = if tracked == 0 {
        Severity::Advice
    } else {
        Severity::Blocker
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
    let (queue, needed) = (readings.accept_queue?, ACCEPT_QUEUE.min(wanted.connections));
    Some(
        Finding::new(
            "accept queue",
            "when clients come back all at once, handshakes beyond this are dropped and tried \
             again a second later",
        )
        .found(format!("{} wait at most", count(queue)))
        .needed(count(needed))
        .when(queue < needed, Severity::Advice)
        .remedy(|| Remedy::setting("net.core.somaxconn", needed)),
    )
}

fn handshakes(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    // Half of the accept queue: a handshake on a network takes a tenth of a second.
    let (most, needed) = (
        readings.handshakes?,
        (ACCEPT_QUEUE / 2).min(wanted.connections),
    );
    Some(
        Finding::new(
            "handshakes",
            "more handshakes under way than this are answered by cookies, or not at all",
        )
        .found(format!("{} at once", count(most)))
        .needed(count(needed))
        .when(most < needed, Severity::Advice)
        .remedy(|| Remedy::setting("net.ipv4.tcp_max_syn_backlog", needed)),
    )
}

fn syncookies(readings: &Readings) -> Option<Finding> {
    let mode = readings.syncookies?;
    Some(
        Finding::new(
            "syncookies",
            "they let clients in when handshakes overflow; without them those are lost, and always \
             sending them forgets window scaling",
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

/// Ports do not bind a server, but they do bind whoever connects to one.
fn ports(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let ports = readings.ports_count()?;
    let addresses = wanted.connections.div_ceil(ports.max(1));
    let finding = Finding::new(
        "ports",
        "a client machine or a proxy has so many connections to one server for each address of its \
         own; `encke flood` plans addresses and ports itself",
    )
    .found(format!("{} for each source address", count(ports)))
    .needed(format!(
        "{} source address{} where all clients are on one machine",
        count(addresses),
        if addresses == 1 { "" } else { "es" }
    ))
    .when(
        ports < (PORTS_MOST / 2).min(wanted.connections),
        Severity::Advice,
    );
    Some(finding.remedy(|| Remedy::setting("net.ipv4.ip_local_port_range", "10240 65535")))
}

/// A client's port that happens to be the server's keeps it from listening.
fn listener_ports(readings: &Readings) -> Option<Finding> {
    let (first, last) = readings.ports?;
    let reserved = reserved(&readings.ports_reserved);
    let at_risk = |port: &u64| {
        let is_reserved = reserved
            .iter()
            .any(|&(low, high)| (low..=high).contains(port));
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
            "an outgoing connection may take port 8000 or 8001 while the server is away, which \
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

/// Ranges as the kernel writes them: `8000-8001,9000`.
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
            "the port of a connection that a client on this machine closed is otherwise away for a \
             minute",
        )
        .found(match mode {
            0 => "ports are not used again early".to_owned(),
            1 => "ports are used again for new connections".to_owned(),
            _ => "ports are used again on loopback".to_owned(),
        })
        .needed("ports used again, at least on loopback")
        .when(mode == 0, Severity::Advice)
        .remedy(|| Remedy::setting("net.ipv4.tcp_tw_reuse", 2)),
    )
}

/// Connections that the server has closed first.
fn time_wait_table(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let most = readings.time_waits_max?;
    let needed = TIME_WAITS_ENOUGH.min(wanted.connections);
    Some(
        Finding::new(
            "time-wait table",
            "a server that ends closes all connections, and each waits a minute for late segments; \
             beyond this many they do not wait, and a segment that comes late resets whoever has \
             the port by then",
        )
        .found(format!("{} wait at most", count(most)))
        .needed(count(needed))
        .when(most < needed, Severity::Advice)
        .remedy(|| Remedy::setting("net.ipv4.tcp_max_tw_buckets", needed)),
    )
}

/// Connections of a server that was killed.
fn orphans(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let (most, needed) = (readings.orphans_max?, wanted.connections);
    Some(
        Finding::new(
            "orphaned connections",
            "a server that is killed leaves all its connections to the kernel, which tells each \
             client until it has heard; beyond this many it tells them once, and a client whose \
             packet is lost waits for a server that is gone",
        )
        .found(format!("{} at most", count(most)))
        .needed(count(needed))
        .when(most < needed, Severity::Advice)
        .remedy(|| Remedy::setting("net.ipv4.tcp_max_orphans", needed)),
    )
}

/// Packets between the device, or loopback, and TCP.
fn device_queue(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let enough = match wanted.both_ends {
        true => LOOPBACK_QUEUE_ENOUGH,
        false => ACCEPT_QUEUE,
    };
    let (most, needed) = (readings.device_queue?, enough.min(wanted.ends()));
    Some(
        Finding::new(
            "device queue",
            "packets that a processor has not come to yet are dropped beyond this many: on \
             loopback, on virtual devices and where one queue serves several processors, a burst \
             of clients that come back is more",
        )
        .found(format!("{} packets for each processor", count(most)))
        .needed(count(needed))
        .when(most < needed, Severity::Advice)
        .remedy(|| Remedy::setting("net.core.netdev_max_backlog", needed)),
    )
}
