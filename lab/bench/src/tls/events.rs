//! CPU time of an event delivered to all clients.

use std::thread;
use std::time::{Duration, Instant};

use machine::failure::Outcome;
use recorder::measure::{CpuTime, median};

use super::Parameters;
use super::peer::{Kind, Peer, Peers, Publisher, SETTLE};
use crate::config::SUBJECT;
use crate::processes::{Clients, Side};
use crate::report::{Bound, Report};

/// Payload, about as long as a short chat message.
const PAYLOAD: &[u8] = b"hello, this is an event that everyone gets";

/// Time limit for a round to reach all clients, in seconds.
const ROUND_SECONDS: u64 = 120;

/// Time for which an idle server is measured, to subtract its heartbeats and timers.
const IDLE: Duration = Duration::from_secs(3);

/// Bound on the user time of an event over TLS.
const USER_MAX_US: f64 = 0.75;

/// Bound on the system calls of a delivery: one, and a share of those that a turn makes once.
const CALLS_MAX: f64 = 1.01;

/// One server and its clients.
struct Contender<'a> {
    peer: Peer<'a>,
    publisher: Publisher,
    clients: Clients,
    idle: CpuTime,
    rounds: Vec<Each>,
}

/// Result of a round, for each delivered event.
#[derive(Debug, Clone, Copy)]
struct Each {
    total_us: f64,
    user: u64,
    system: u64,
    calls: Option<f64>,
    rate: f64,
}

pub(super) fn measure(
    peers: &Peers<'_>,
    parameters: &Parameters,
    report: &mut Report,
) -> Outcome<()> {
    let mut sides = Vec::new();
    for &kind in &peers.kinds {
        sides.push(start(peers, kind, parameters.listeners)?);
    }
    // The first round warms caches and is not counted.
    for round in 0..=parameters.rounds {
        for side in &mut sides {
            let each = self::round(side, parameters)?;
            eprintln!(
                "{} round {round}: {:.2} us, at {:.0}/s",
                side.peer.kind.name(),
                each.total_us,
                each.rate
            );
            if round > 0 {
                side.rounds.push(each);
            }
        }
    }
    for side in sides {
        report_cost(&side, report);
        side.clients.quit();
    }
    Ok(())
}

fn report_cost(side: &Contender<'_>, report: &mut Report) {
    let kind = side.peer.kind;
    let middle = |of: fn(&Each) -> f64| median(&side.rounds.iter().map(of).collect::<Vec<f64>>());
    let name = format!("{}: event", kind.name());
    report.figure(
        format!("{name}, processor"),
        middle(|each| each.total_us),
        "us",
    );
    // Ticks are coarse, so the share of user time is computed from their sums over all rounds.
    let sum = |of: fn(&Each) -> u64| side.rounds.iter().map(of).sum::<u64>() as f64;
    let share = sum(|each| each.user) / sum(|each| each.user + each.system).max(1.0);
    let user = middle(|each| each.total_us) * share;
    let calls: Vec<f64> = side.rounds.iter().filter_map(|each| each.calls).collect();
    if kind == Kind::Tls {
        report.bounded(
            format!("{name}, user"),
            user,
            "us",
            Bound::AtMost(USER_MAX_US),
        );
        report.bounded(
            format!("{name}, system calls"),
            median(&calls),
            "a delivery",
            Bound::AtMost(CALLS_MAX),
        );
    } else {
        report.figure(format!("{name}, user"), user, "us");
        if !calls.is_empty() {
            report.figure(
                format!("{name}, system calls"),
                median(&calls),
                "a delivery",
            );
        }
    }
    report.figure(format!("{name}, delivered"), middle(|each| each.rate), "/s");
}

/// Starts a server whose clients all follow one subject.
fn start<'a>(peers: &'a Peers<'a>, kind: Kind, listeners: u32) -> Outcome<Contender<'a>> {
    let peer = peers.start(kind)?;
    let mut clients = peer.clients(
        Side::Server,
        &format!("/events/{SUBJECT}"),
        0,
        listeners,
        &[],
    )?;
    clients.opened()?;
    thread::sleep(SETTLE);
    let before = peer.cpu()?;
    thread::sleep(IDLE);
    let idle = &peer.cpu()? - &before;
    Ok(Contender {
        publisher: peer.publisher()?,
        peer,
        clients,
        idle,
        rounds: Vec::new(),
    })
}

fn round(side: &mut Contender<'_>, parameters: &Parameters) -> Outcome<Each> {
    let expected = u64::from(parameters.listeners) * u64::from(parameters.events);
    let calls_before = side.peer.calls()?;
    let seen_before = side.clients.seen()?;
    let (before, begun) = (side.peer.cpu()?, Instant::now());
    for number in 1..=u64::from(parameters.events) {
        side.publisher.publish_and_await(SUBJECT, PAYLOAD)?;
        // Await each event, whether or not the server's answer implies that it has arrived.
        let so_far = number * u64::from(parameters.listeners);
        side.clients
            .events(seen_before.events + so_far, ROUND_SECONDS)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let spent = &side.peer.cpu()? - &before;
    let spent = spent.without_idle(seconds, &side.idle, IDLE.as_secs_f64());
    let calls = side.peer.calls()?.zip(calls_before);
    let events = expected as f64;
    Ok(Each {
        total_us: spent.total as f64 / 1000.0 / events,
        user: spent.user,
        system: spent.system,
        calls: calls.map(|(now, before)| (now - before) / events),
        rate: events / seconds,
    })
}
