//! CPU time of opening a session: plain, with a full handshake, and with a resumed one.

use std::thread;

use machine::failure::Outcome;
use recorder::measure::median;

use super::library;
use super::peer::{Kind, Peers};
use crate::cost::{Ramp, SETTLE};
use crate::processes::Side;
use crate::report::Report;

/// Result of one ramp.
struct Opening {
    kind: Kind,
    resumes: bool,
    ramp: Ramp,
}

pub(super) fn measure(peers: &Peers<'_>, rounds: u32, report: &mut Report) -> Outcome<()> {
    let (mut ramps, mut alone) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        alone.push(library::full_handshake_micros(peers.certificate)?);
        for &kind in &peers.kinds {
            ramps.push(ramp(peers, kind, false)?);
            if kind.is_secure() {
                ramps.push(ramp(peers, kind, true)?);
            }
        }
        eprintln!(
            "handshakes, round {round} of {rounds}: the library alone {:.1} us",
            alone[alone.len() - 1]
        );
    }
    let middle = |kind: Kind, resumes: bool, of: fn(&Ramp) -> f64| {
        let those = ramps
            .iter()
            .filter(|one: &&Opening| one.kind == kind && one.resumes == resumes);
        median(&those.map(|one| of(&one.ramp)).collect::<Vec<f64>>())
    };
    let plain = middle(Kind::Plain, false, |ramp| ramp.user_us);
    let alone = median(&alone);
    report.figure("handshake, the library alone", alone, "us");
    report.figure("handshake, the library alone", 1e6 / alone, "/s and core");
    for &kind in &peers.kinds {
        for resumes in [false, true] {
            if resumes && !kind.is_secure() {
                continue;
            }
            let handshake = match (kind.is_secure(), resumes) {
                (false, _) => "",
                (true, false) => ", full handshake",
                (true, true) => ", resumed",
            };
            report.part(format!("{}: session{handshake}, ", kind.name()));
            let of = |of| middle(kind, resumes, of);
            report.figure("processor", of(|ramp| ramp.total_us), "us");
            report.figure("user", of(|ramp| ramp.user_us), "us");
            report.figure("opened", of(|ramp| ramp.rate), "/s");
            if resumes {
                let share = of(|ramp| {
                    ramp.seen.totals.counts.resumed as f64
                        / ramp.seen.totals.counts.handshakes.max(1) as f64
                });
                report.figure("share that was resumed", share * 100.0, "%");
            }
        }
        let beyond = middle(kind, false, |ramp| ramp.user_us) - plain;
        match kind {
            Kind::PlainWithTokens => {
                report.part("token (HS256), ");
                report.figure("user beyond plain", beyond, "us");
            }
            Kind::Tls | Kind::TlsByRustls => {
                report.part(format!("{}: full handshakes", kind.name()));
                report.figure(", user beyond plain", beyond, "us");
                report.figure("", 1e6 / beyond, "/s and core");
                report.at_least(", of the library alone", alone / beyond, "x", 0.9);
            }
            Kind::Plain | Kind::Nginx => {}
        }
    }
    Ok(())
}

fn ramp(peers: &Peers<'_>, kind: Kind, resumes: bool) -> Outcome<Opening> {
    let connections = peers.connections(kind);
    let peer = peers.start(kind)?;
    let flags: &[&str] = if resumes { &["--tls-resume"] } else { &[] };
    let start = || peer.clients(Side::Server, "/events/{n}", 0, connections, flags);
    let ramp = Ramp::measure(peer.pid(), start, |_, seen| Ok(seen))?;
    drop(peer);
    thread::sleep(SETTLE);
    eprintln!(
        "{}{}: {:.0}/s at {:.1} us, of which {:.1} user",
        kind.name(),
        if resumes { ", resumed" } else { "" },
        ramp.rate,
        ramp.total_us,
        ramp.user_us
    );
    Ok(Opening {
        kind,
        resumes,
        ramp,
    })
}
