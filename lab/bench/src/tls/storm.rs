//! Latency of an event to one user while as many clients as possible connect, perform a handshake,
//! and leave.

use std::thread;
use std::time::{Duration, Instant};

use super::peer::{Kind, Peer, Peers, Publisher};
use crate::cost::SETTLE;
use crate::processes::{Clients, Side};
use crate::report::Report;
use crate::stamped::{await_latencies, publish_stamped};
use load::latency::Latency;
use machine::failure::Outcome;

/// User whose latency is measured.
const WITNESS: u32 = 1_900_000_000;

/// Events a second to that user.
const RATE: u32 = 100;

/// Clients of the storm, each of which keeps reconnecting.
const STORM: u32 = 512;

/// Time limit for the last events to arrive.
const LAST: Duration = Duration::from_secs(30);

/// Bound on the 99th percentile of the latency, in milliseconds.
const P99_MAX_MS: f64 = 50.0;

pub(super) fn measure(peers: &Peers<'_>, length: Duration, report: &mut Report) -> Outcome<()> {
    for &kind in &peers.kinds {
        let peer = peers.start(kind)?;
        let mut witness = peer.clients(Side::Witness, "/events/{n}", WITNESS, 1, &[])?;
        witness.opened()?;
        let mut publisher = peer.publisher()?;
        thread::sleep(SETTLE);
        let quiet = phase(&mut publisher, &mut witness, length)?;
        let (busy, rate) = in_storm(&peer, &mut publisher, &mut witness, length)?;
        let name = kind.name();
        eprintln!(
            "{name}: {rate:.0} sessions/s; p99 {:.2} ms",
            busy.p99_us / 1000.0
        );
        report.part(format!("{name}: "));
        report.figure("quiet, latency p99", quiet.p99_us / 1000.0, "ms");
        report.figure("storm", rate, "sessions/s");
        report.figure("storm, latency p50", busy.p50_us / 1000.0, "ms");
        let p99 = busy.p99_us / 1000.0;
        if kind == Kind::Tls {
            report.at_most("storm, latency p99", p99, "ms", P99_MAX_MS);
        } else {
            report.figure("storm, latency p99", p99, "ms");
        }
        report.figure("storm, latency max", busy.max_us / 1000.0, "ms");
        witness.quit();
    }
    Ok(())
}

/// Runs a phase during a storm. Also returns the sessions that the storm opened a second.
fn in_storm(
    peer: &Peer<'_>,
    publisher: &mut Publisher,
    witness: &mut Clients,
    length: Duration,
) -> Outcome<(Latency, f64)> {
    let storm = STORM.to_string();
    let flags = ["--reconnect", &storm, "--every", "1ms"];
    let mut storm = peer.clients(Side::Server, "/events/{n}", 0, STORM, &flags)?;
    thread::sleep(SETTLE);
    let (before, begun) = (storm.seen()?, Instant::now());
    let busy = phase(publisher, witness, length)?;
    let after = storm.seen()?;
    let rate = (after.totals.counts.heads - before.totals.counts.heads) as f64
        / begun.elapsed().as_secs_f64();
    storm.quit();
    Ok((busy, rate))
}

/// Publishes stamped events to the measured user. Returns the latencies when all have arrived.
fn phase(publisher: &mut Publisher, witness: &mut Clients, length: Duration) -> Outcome<Latency> {
    witness.forget_latencies()?;
    let sent = publish_stamped(RATE, length, |payload| publisher.publish(WITNESS, payload))?;
    await_latencies(witness, sent, LAST)
}
