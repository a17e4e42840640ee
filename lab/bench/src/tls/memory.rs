//! Memory of an idle session in the server's process.

use std::thread;

use machine::failure::Outcome;
use recorder::measure::Memory;

use super::peer::{Kind, Peers, SETTLE};
use crate::processes::Side;
use crate::report::{Bound, Report};

/// Bound on the bytes that TLS adds to an idle session.
const TLS_BYTES_MAX: f64 = 260.0;

pub(super) fn measure(peers: &Peers<'_>, report: &mut Report) -> Outcome<()> {
    let mut plain = None;
    for &kind in &peers.kinds {
        let (server, client) = of(peers, kind)?;
        eprintln!("{}: {server:.0} bytes an idle session", kind.name());
        report.figure(format!("{}: idle session", kind.name()), server, "bytes");
        if kind == Kind::Plain {
            plain = Some(server);
        }
        if let (Kind::Tls, Some(plain)) = (kind, plain) {
            report.bounded(
                "TLS: idle session, beyond plain",
                server - plain,
                "bytes",
                Bound::AtMost(TLS_BYTES_MAX),
            );
        }
        report.figure(
            format!("{}: a client of the harness", kind.name()),
            client,
            "bytes",
        );
    }
    Ok(())
}

/// Returns the bytes of a session in the server and of a client in the flood.
fn of(peers: &Peers<'_>, kind: Kind) -> Outcome<(f64, f64)> {
    let connections = peers.connections(kind);
    let peer = peers.start(kind)?;
    thread::sleep(SETTLE);
    let before = peer.memory()?;
    let mut clients = peer.clients(Side::Server, "/events/{n}", 0, connections, &[])?;
    clients.opened()?;
    thread::sleep(SETTLE);
    let grown = peer.memory()?.resident.saturating_sub(before.resident);
    let harness = Memory::of(clients.pid())?.resident;
    clients.quit();
    let sessions = f64::from(connections);
    Ok((grown as f64 / sessions, harness as f64 / sessions))
}
