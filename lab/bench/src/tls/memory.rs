//! Memory of an idle session in the server's process.

use std::thread;

use machine::failure::Outcome;
use recorder::measure::Memory;

use super::peer::{Kind, Peers};
use crate::cost::SETTLE;
use crate::processes::Side;
use crate::report::Report;

/// Bound on the bytes that TLS adds to an idle session.
const TLS_BYTES_MAX: f64 = 260.0;

pub(super) fn measure(peers: &Peers<'_>, report: &mut Report) -> Outcome<()> {
    let mut plain = None;
    for &kind in &peers.kinds {
        let (server, client) = of(peers, kind)?;
        eprintln!("{}: {server:.0} bytes an idle session", kind.name());
        report.part(format!("{}: ", kind.name()));
        report.figure("idle session", server, "bytes");
        if kind == Kind::Plain {
            plain = Some(server);
        }
        if let (Kind::Tls, Some(plain)) = (kind, plain) {
            let name = "idle session, beyond plain";
            report.at_most(name, server - plain, "bytes", TLS_BYTES_MAX);
        }
        report.figure("a client of the harness", client, "bytes");
    }
    Ok(())
}

/// Returns the bytes of a session in the server and of a client in the flood.
fn of(peers: &Peers<'_>, kind: Kind) -> Outcome<(f64, f64)> {
    let connections = peers.connections(kind);
    let peer = peers.start(kind)?;
    thread::sleep(SETTLE);
    let before = Memory::of(peer.pid())?.resident;
    let mut clients = peer.clients(Side::Server, "/events/{n}", 0, connections, &[])?;
    clients.opened()?;
    thread::sleep(SETTLE);
    let grown = Memory::of(peer.pid())?.resident.saturating_sub(before);
    let harness = Memory::of(clients.pid())?.resident;
    clients.quit();
    let sessions = f64::from(connections);
    Ok((grown as f64 / sessions, harness as f64 / sessions))
}
