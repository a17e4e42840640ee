//! Capacity plan: memory, CPU time, bandwidth and descriptors for a number of users.
//!
//! An estimate from the [`measured`] constants of one machine; `encke-lab prove` gives better
//! numbers for a particular machine. Descriptors and kernel settings are computed by the doctor.

use serde::Serialize;

use crate::doctor::settings::{self, NeededSetting};
use crate::doctor::{Workload, capacity};
use crate::measured;

/// Bytes of a delivery on the wire without its payload: id and framing of the event, IP and TCP
/// headers.
const FRAME_BYTES: f64 = 100.0;
/// Overhead of a TLS record in bytes: header, type and tag.
const TLS_RECORD_BYTES: f64 = 22.0;
/// Heartbeats of a session: one in 20 s, unless told otherwise. Each costs as much as a delivery.
const HEARTBEATS_PER_SECOND: f64 = 1.0 / 20.0;
/// Part of a core that is planned for. Beyond it, waiting grows quickly.
const BUSY_MAX: f64 = 0.7;
/// Time in which all users reconnect after a restart, in seconds.
const RETURN_SECONDS: f64 = 60.0;

/// Load that a server must handle.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Demand {
    /// Users connected at the same time.
    pub users: f64,
    /// Events that each user publishes a second.
    pub rate: f64,
    /// Connected subscribers of each user.
    pub friends: f64,
    /// Payload of an event in bytes.
    pub payload_bytes: f64,
    /// Seconds for which a client may be away without missing an event.
    pub away_seconds: f64,
    /// Whether Encke terminates TLS.
    pub tls: bool,
}

/// Resources that a server needs for a [`Demand`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Events published a second.
    pub events_per_second: f64,
    /// Events delivered a second.
    pub deliveries_per_second: f64,
    /// Bytes of the process for sessions.
    pub session_bytes: f64,
    /// Bytes of the process for the graph.
    pub graph_bytes: f64,
    /// Bytes of the process for the history: the value for `--history-bytes`.
    pub history_bytes: f64,
    /// Bytes of the kernel for connections.
    pub kernel_bytes: f64,
    /// Total bytes: all of the above and the base size of the process.
    pub memory_bytes: f64,
    /// CPU use in fully busy cores.
    pub cores_busy: f64,
    /// Cores needed, so that none is busier than 70 %.
    pub cores: f64,
    /// Bytes sent a second.
    pub bytes_per_second: f64,
    /// Descriptor limit of the process (`LimitNOFILE`).
    pub descriptors: u64,
    /// Minimum kernel settings.
    pub settings: Vec<NeededSetting>,
    /// Logins a second when all users reconnect within a minute.
    pub logins_per_second: f64,
    /// Share of the cores that these logins take.
    pub logins_busy: f64,
}

impl Plan {
    /// Computes the plan for a demand.
    pub fn of(demand: &Demand) -> Self {
        let events_per_second = demand.users * demand.rate;
        let deliveries_per_second = events_per_second * demand.friends;
        let (session, record, sealing, handshake) = match demand.tls {
            false => (0, 0.0, 0.0, 0.0),
            true => (
                measured::TLS_SESSION_BYTES,
                TLS_RECORD_BYTES,
                measured::TLS_DELIVERY_SECONDS,
                measured::HANDSHAKE_SECONDS,
            ),
        };
        let session_bytes = demand.users * (measured::SESSION_BYTES + session) as f64;
        let graph_bytes = demand.users * demand.friends * measured::EDGE_BYTES;
        let event_bytes = demand.payload_bytes + measured::HISTORY_EVENT_BYTES as f64;
        let history_bytes = events_per_second * demand.away_seconds * event_bytes;
        let kernel_bytes = demand.users * measured::KERNEL_END_BYTES as f64;
        let heartbeats = demand.users * HEARTBEATS_PER_SECOND;
        let sends = deliveries_per_second + heartbeats;
        let cores_busy = sends * (measured::DELIVERY_SECONDS + sealing);
        let cores = (cores_busy / BUSY_MAX).ceil().max(1.0);
        let frame_bytes = demand.payload_bytes + FRAME_BYTES + record;
        let logins_per_second = demand.users / RETURN_SECONDS;
        let memory_bytes = measured::PROCESS_BYTES as f64
            + session_bytes
            + graph_bytes
            + history_bytes
            + kernel_bytes;
        // One worker for each core, up to the limit.
        let wanted = Workload {
            connections: demand.users.ceil() as u64,
            workers: (cores as u64).min(capacity::WORKERS_MAX),
            private_fds: false,
            both_ends: false,
        };
        Self {
            events_per_second,
            deliveries_per_second,
            session_bytes,
            graph_bytes,
            history_bytes,
            kernel_bytes,
            memory_bytes,
            cores_busy,
            cores,
            bytes_per_second: deliveries_per_second * frame_bytes
                + heartbeats * (FRAME_BYTES + record),
            descriptors: capacity::descriptors(wanted.connections, wanted.workers, false),
            settings: settings::needed(wanted, memory_bytes as u64),
            logins_per_second,
            logins_busy: logins_per_second * (measured::LOGIN_SECONDS + handshake) / cores,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION: Demand = Demand {
        users: 1e6,
        rate: 1.0 / 60.0,
        friends: 30.0,
        payload_bytes: 120.0,
        away_seconds: 0.0,
        tls: false,
    };

    fn near(value: f64, expected: f64) {
        assert!(
            (value / expected - 1.0).abs() < 0.01,
            "{value}, not {expected}"
        );
    }

    #[test]
    fn the_plan_for_a_million_users_agrees_with_measurements() {
        let plan = Plan::of(&MILLION);
        near(plan.events_per_second, 16_667.0);
        near(plan.deliveries_per_second, 500_000.0);
        near(plan.session_bytes, 45e6);
        near(plan.graph_bytes, 318e6);
        near(plan.kernel_bytes, 4.18e9);
        near(plan.cores_busy, 550_000.0 * 9.22e-6);
        assert_eq!(plan.cores, 8.0);
        // 1,000,000 clients, 64 of the process, and four for each of eight workers.
        assert_eq!(plan.descriptors, 1_000_096);
    }

    #[test]
    fn the_history_covers_the_time_that_clients_are_away() {
        let plan = Plan::of(&Demand {
            away_seconds: 300.0,
            ..MILLION
        });
        near(plan.history_bytes, 16_667.0 * 300.0 * 152.0);
        near(
            plan.memory_bytes - plan.history_bytes,
            Plan::of(&MILLION).memory_bytes,
        );
    }

    #[test]
    fn tls_never_costs_less() {
        let (plain, tls) = (
            Plan::of(&MILLION),
            Plan::of(&Demand {
                tls: true,
                ..MILLION
            }),
        );
        assert!(tls.memory_bytes > plain.memory_bytes && tls.cores_busy > plain.cores_busy);
        assert!(tls.bytes_per_second > plain.bytes_per_second);
        near(tls.logins_busy * tls.cores, 16_667.0 * (10.9e-6 + 224e-6));
    }

    #[test]
    fn no_load_needs_one_core() {
        let plan = Plan::of(&Demand {
            users: 0.0,
            ..MILLION
        });
        assert_eq!(
            (plan.cores, plan.bytes_per_second, plan.logins_busy),
            (1.0, 0.0, 0.0)
        );
        assert_eq!(plan.memory_bytes, measured::PROCESS_BYTES as f64);
    }

    #[test]
    fn the_settings_are_those_of_the_doctor() {
        let plan = Plan::of(&MILLION);
        let settings: Vec<_> = plan
            .settings
            .iter()
            .map(|setting| (setting.name, &*setting.value))
            .collect();
        let expected = [
            ("fs.file-max", "1020000"),
            ("fs.nr_open", "1000096"),
            ("net.core.netdev_max_backlog", "4096"),
            ("net.core.rmem_max", "212992"),
            ("net.core.somaxconn", "4096"),
            ("net.core.wmem_max", "262144"),
            ("net.ipv4.tcp_max_orphans", "1000000"),
            ("net.ipv4.tcp_max_syn_backlog", "2048"),
            ("net.ipv4.tcp_max_tw_buckets", "262144"),
            ("net.ipv4.tcp_mem", "1000000 1500000 2000000"),
            ("net.netfilter.nf_conntrack_max", "1010000"),
            ("vm.min_free_kbytes", "89077"),
        ];
        assert_eq!(settings, expected);
        assert!(plan.settings.iter().all(|setting| !setting.why.is_empty()));
    }

    #[test]
    fn an_extreme_demand_has_a_plan() {
        let plan = Plan::of(&Demand {
            users: 1e12,
            rate: 1e12,
            friends: 1e12,
            ..MILLION
        });
        assert!(plan.cores > 1e20 && plan.descriptors > 1 << 39);
    }
}
