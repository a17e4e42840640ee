//! CPU time of opening a session: plain, with a full handshake, and with a resumed one.

use std::thread;

use machine::failure::Outcome;
use recorder::measure::median;

use super::library;
use super::peer::{Kind, Peers, SETTLE};
use crate::processes::Side;
use crate::report::{Bound, Report};

/// Result of one ramp, for each session.
#[derive(Debug, Clone, Copy)]
struct Ramp {
    kind: Kind,
    resumes: bool,
    rate: f64,
    total_us: f64,
    user_us: f64,
    resumed: f64,
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
            .filter(|ramp| ramp.kind == kind && ramp.resumes == resumes);
        median(&those.map(of).collect::<Vec<f64>>())
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
            let name = match (kind.is_secure(), resumes) {
                (false, _) => format!("{}: session", kind.name()),
                (true, false) => format!("{}: session, full handshake", kind.name()),
                (true, true) => format!("{}: session, resumed", kind.name()),
            };
            let of = |of| middle(kind, resumes, of);
            report.figure(format!("{name}, processor"), of(|ramp| ramp.total_us), "us");
            report.figure(format!("{name}, user"), of(|ramp| ramp.user_us), "us");
            report.figure(format!("{name}, opened"), of(|ramp| ramp.rate), "/s");
            if resumes {
                report.figure(
                    format!("{name}, share that was resumed"),
                    of(|ramp| ramp.resumed) * 100.0,
                    "%",
                );
            }
        }
        if kind == Kind::PlainWithTokens {
            let share = middle(kind, false, |ramp| ramp.user_us) - plain;
            report.figure("token (HS256), user beyond plain", share, "us");
        }
        if matches!(kind, Kind::Tls | Kind::TlsByRustls) {
            let share = middle(kind, false, |ramp| ramp.user_us) - plain;
            let name = format!("{}: full handshakes", kind.name());
            report.figure(format!("{name}, user beyond plain"), share, "us");
            report.figure(name.clone(), 1e6 / share, "/s and core");
            report.bounded(
                format!("{name}, of the library alone"),
                alone / share,
                "x",
                Bound::AtLeast(0.9),
            );
        }
    }
    Ok(())
}

fn ramp(peers: &Peers<'_>, kind: Kind, resumes: bool) -> Outcome<Ramp> {
    let connections = peers.connections(kind);
    let peer = peers.start(kind)?;
    let flags: &[&str] = if resumes { &["--tls-resume"] } else { &[] };
    let before = peer.cpu()?;
    let mut clients = peer.clients(Side::Server, "/events/{n}", 0, connections, flags)?;
    let seen = clients.opened()?;
    let spent = &peer.cpu()? - &before;
    clients.quit();
    drop(peer);
    thread::sleep(SETTLE);
    let sessions = f64::from(connections);
    let taken = Ramp {
        kind,
        resumes,
        rate: sessions / seen.seconds,
        total_us: spent.total as f64 / 1000.0 / sessions,
        // Ticks are coarse, so only their ratio is used, applied to the exact total.
        user_us: spent.total as f64 / 1000.0 / sessions * spent.user_share(),
        resumed: seen.resumed as f64 / seen.handshakes.max(1) as f64,
    };
    eprintln!(
        "{}{}: {:.0}/s at {:.1} us, of which {:.1} user",
        kind.name(),
        if resumes { ", resumed" } else { "" },
        taken.rate,
        taken.total_us,
        taken.user_us
    );
    Ok(taken)
}
