//! CPU time of an event delivered to all clients.

use std::thread;
use std::time::Duration;

use machine::failure::Outcome;
use recorder::measure::median;

use super::Parameters;
use super::peer::{Kind, Peer, Peers, Publisher};
use crate::config::SUBJECT;
use crate::cost::{Meter, Round, SETTLE, Spent, median_of};
use crate::processes::{Clients, Side};
use crate::report::Report;

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
    idle: Spent,
    rounds: Vec<Round>,
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
            let result = self::round(side, parameters)?;
            eprintln!(
                "{} round {round}: {:.2} us, at {:.0}/s",
                side.peer.kind.name(),
                result.total_us,
                result.rate
            );
            if round > 0 {
                side.rounds.push(result);
            }
        }
    }
    for side in sides {
        report_cost(side.peer.kind, &side.rounds, report);
        side.clients.quit();
    }
    Ok(())
}

fn report_cost(kind: Kind, rounds: &[Round], report: &mut Report) {
    let total = median_of(rounds, |round| round.total_us);
    let user = total * Round::user_share(rounds);
    let calls: Vec<f64> = rounds.iter().filter_map(|round| round.calls).collect();
    report.part(format!("{}: event, ", kind.name()));
    report.figure("processor", total, "us");
    if kind == Kind::Tls {
        report.at_most("user", user, "us", USER_MAX_US);
        report.at_most("system calls", median(&calls), "a delivery", CALLS_MAX);
    } else {
        report.figure("user", user, "us");
        if !calls.is_empty() {
            report.figure("system calls", median(&calls), "a delivery");
        }
    }
    report.figure("delivered", median_of(rounds, |round| round.rate), "/s");
}

/// Starts a server whose clients all follow one subject.
fn start<'a>(peers: &'a Peers<'a>, kind: Kind, listeners: u32) -> Outcome<Contender<'a>> {
    let peer = peers.start(kind)?;
    let path = format!("/events/{SUBJECT}");
    let mut clients = peer.clients(Side::Server, &path, 0, listeners, &[])?;
    clients.opened()?;
    thread::sleep(SETTLE);
    Ok(Contender {
        idle: Spent::idle(peer.pid(), IDLE)?,
        publisher: peer.publisher()?,
        peer,
        clients,
        rounds: Vec::new(),
    })
}

fn round(side: &mut Contender<'_>, parameters: &Parameters) -> Outcome<Round> {
    let (listeners, events) = (
        u64::from(parameters.listeners),
        u64::from(parameters.events),
    );
    let calls_before = side.peer.calls()?;
    let before = side.clients.seen()?.totals.counts.events;
    let meter = Meter::start(side.peer.pid())?;
    for number in 1..=events {
        side.publisher.publish_and_await(SUBJECT, PAYLOAD)?;
        // Await each event, whether or not the server's answer implies that it has arrived.
        let so_far = number * listeners;
        side.clients.events(before + so_far, ROUND_SECONDS)?;
    }
    let spent = meter.stop()?.without(&side.idle);
    let calls = side.peer.calls()?.zip(calls_before);
    let calls = calls.map(|(now, before)| now - before);
    Ok(Round::of(spent, (listeners * events) as f64, calls))
}
