//! What a number of users costs: memory, processor time, bandwidth, descriptors.
//!
//! Arithmetic with constants that `docs/BENCHMARKS.md` measured on one machine: an estimate, which
//! a run of `encke prove` on the machine in question replaces.

use serde::Serialize;

/// Memory of the process before the first session: program, heaps, tables. Resident at start.
const PROCESS_BYTES: f64 = 10e6;
/// An idle session, in the process.
const SESSION_BYTES: f64 = 45.0;
/// An idle session over TLS 1.3, in the process.
const TLS_SESSION_BYTES: f64 = 300.0;
/// The server's end of an idle connection, in the kernel.
const KERNEL_BYTES: f64 = 4161.0;
/// An edge of the graph: 5.3 bytes in each of two directions.
const EDGE_BYTES: f64 = 10.6;
/// An event in the history, without its payload.
const HISTORY_EVENT_BYTES: f64 = 32.0;
/// A delivery on the wire, without its payload: the event's id and framing, and the headers of IP
/// and TCP.
const FRAME_BYTES: f64 = 100.0;
/// A record of TLS: header, type and tag.
const TLS_RECORD_BYTES: f64 = 22.0;
/// Processor time of a delivery to one user, the kernel's included, on busy workers.
const DELIVERY_SECONDS: f64 = 10e-6;
/// Processor time of a delivery over TLS, in addition.
const TLS_DELIVERY_SECONDS: f64 = 1e-6;
/// Processor time of a login, the kernel's included.
const LOGIN_SECONDS: f64 = 18e-6;
/// Processor time of a full TLS handshake.
const HANDSHAKE_SECONDS: f64 = 155e-6;
/// Processor time of a heartbeat, which is a delivery.
const HEARTBEATS_PER_SECOND: f64 = 1.0 / 25.0;
/// Part of a core that is planned for. Beyond it, waiting grows quickly.
const BUSY_MAX: f64 = 0.7;
/// Time in which all users come back after a restart.
const RETURN_SECONDS: f64 = 60.0;

/// What is asked of a server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Demand {
    /// Users connected at the same time.
    pub users: f64,
    /// Events that each user publishes, a second.
    pub rate: f64,
    /// Connected subscribers of each user.
    pub friends: f64,
    /// Payload of an event, in bytes.
    pub payload_bytes: f64,
    /// Time for which a client may be away and miss nothing, in seconds.
    pub away_seconds: f64,
    /// Whether Encke ends TLS.
    pub tls: bool,
}

/// What a server needs for it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Plan {
    /// Events published, a second.
    pub events_per_second: f64,
    /// Events delivered, a second.
    pub deliveries_per_second: f64,
    /// Memory of the process for sessions, in bytes.
    pub session_bytes: f64,
    /// Memory of the process for the graph, in bytes.
    pub graph_bytes: f64,
    /// Memory of the process for the history, in bytes: what `--history-bytes` needs.
    pub history_bytes: f64,
    /// Memory of the kernel for connections, in bytes.
    pub kernel_bytes: f64,
    /// All of this, and what the process takes by itself.
    pub memory_bytes: f64,
    /// Processor time, in cores that do nothing else.
    pub cores_busy: f64,
    /// Cores to have.
    pub cores: f64,
    /// Bytes sent, a second.
    pub bytes_per_second: f64,
    /// Descriptors.
    pub descriptors: f64,
    /// Logins a second when all users come back within a minute.
    pub logins_per_second: f64,
    /// Part of the cores that these logins take.
    pub logins_busy: f64,
}

impl Plan {
    /// Computes what a demand needs.
    pub fn of(demand: &Demand) -> Self {
        let events_per_second = demand.users * demand.rate;
        let deliveries_per_second = events_per_second * demand.friends;
        let (session, record, sealing, handshake) = if demand.tls {
            let sealing = TLS_DELIVERY_SECONDS;
            (
                TLS_SESSION_BYTES,
                TLS_RECORD_BYTES,
                sealing,
                HANDSHAKE_SECONDS,
            )
        } else {
            (SESSION_BYTES, 0.0, 0.0, 0.0)
        };
        let session_bytes = demand.users * session;
        let graph_bytes = demand.users * demand.friends * EDGE_BYTES;
        let event_bytes = demand.payload_bytes + HISTORY_EVENT_BYTES;
        let history_bytes = events_per_second * demand.away_seconds * event_bytes;
        let kernel_bytes = demand.users * KERNEL_BYTES;
        let heartbeats = demand.users * HEARTBEATS_PER_SECOND;
        let sends = deliveries_per_second + heartbeats;
        let cores_busy = sends * (DELIVERY_SECONDS + sealing);
        let cores = (cores_busy / BUSY_MAX).ceil().max(1.0);
        let frame_bytes = demand.payload_bytes + FRAME_BYTES + record;
        let logins_per_second = demand.users / RETURN_SECONDS;
        Self {
            events_per_second,
            deliveries_per_second,
            session_bytes,
            graph_bytes,
            history_bytes,
            kernel_bytes,
            memory_bytes: PROCESS_BYTES
                + session_bytes
                + graph_bytes
                + history_bytes
                + kernel_bytes,
            cores_busy,
            cores,
            bytes_per_second: deliveries_per_second * frame_bytes
                + heartbeats * (FRAME_BYTES + record),
            descriptors: demand.users,
            logins_per_second,
            logins_busy: logins_per_second * (LOGIN_SECONDS + handshake) / cores,
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
    fn a_million_users_cost_what_was_measured() {
        let plan = Plan::of(&MILLION);
        near(plan.events_per_second, 16_667.0);
        near(plan.deliveries_per_second, 500_000.0);
        near(plan.session_bytes, 45e6);
        near(plan.graph_bytes, 318e6);
        near(plan.kernel_bytes, 4.161e9);
        near(plan.cores_busy, 5.4);
        assert_eq!(plan.cores, 8.0);
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
    fn tls_costs_more_and_never_less() {
        let (plain, tls) = (
            Plan::of(&MILLION),
            Plan::of(&Demand {
                tls: true,
                ..MILLION
            }),
        );
        assert!(tls.memory_bytes > plain.memory_bytes && tls.cores_busy > plain.cores_busy);
        assert!(tls.bytes_per_second > plain.bytes_per_second);
        near(tls.logins_busy * tls.cores, 16_667.0 * 173e-6);
    }

    #[test]
    fn nothing_to_do_needs_one_core() {
        let plan = Plan::of(&Demand {
            users: 0.0,
            ..MILLION
        });
        assert_eq!(
            (plan.cores, plan.bytes_per_second, plan.logins_busy),
            (1.0, 0.0, 0.0)
        );
        assert_eq!(plan.memory_bytes, PROCESS_BYTES);
    }
}
