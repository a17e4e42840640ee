//! Connection attempts to other nodes: resolve the host, ask its epmd for the port, connect. Each
//! step may block, so each attempt has its own thread.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use server::ExternalWorker;

use super::DialResults;
use crate::connections::ConnectionId;
use crate::epmd;
use crate::limits::DIAL_THREADS_MAX;
use crate::node_name::NodeName;

/// Time limit of each step.
const STEP_TIME: Duration = Duration::from_secs(5);

/// Longest answer of epmd in bytes: a name and a few numbers.
const ANSWER_BYTES_MAX: u64 = 1024;

/// The outcome of a connection attempt.
pub(super) struct DialResult {
    pub(super) connection: ConnectionId,
    pub(super) outcome: io::Result<DialedNode>,
}

/// A node that has accepted the connection.
pub(super) struct DialedNode {
    pub(super) socket: OwnedFd,
    pub(super) address: SocketAddr,
    pub(super) version: u16,
}

/// Guard that counts a dialing thread until it ends.
struct RunningDial(Arc<DialResults>);

impl Drop for RunningDial {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connects to a node on a new thread, which adds the outcome to `dial_results`.
pub(super) fn dial(
    connection: ConnectionId,
    name: NodeName,
    epmd_port: u16,
    dial_results: &Arc<DialResults>,
    worker: &Arc<ExternalWorker>,
) {
    let report = {
        let (dial_results, worker) = (Arc::clone(dial_results), Arc::clone(worker));
        move |outcome| {
            dial_results.results.lock().push(DialResult {
                connection,
                outcome,
            });
            worker.ring();
        }
    };
    let refuse = report.clone();
    if dial_results.running.load(Ordering::Relaxed) >= DIAL_THREADS_MAX {
        return refuse(Err(io::Error::other("too many nodes are dialed at once")));
    }
    dial_results.running.fetch_add(1, Ordering::Relaxed);
    let running = RunningDial(Arc::clone(dial_results));
    let connect = move || {
        let _running = running;
        report(connect(&name, epmd_port));
    };
    let thread = thread::Builder::new()
        .name("encke-dial".to_owned())
        .spawn(connect);
    if let Err(error) = thread {
        refuse(Err(error));
    }
}

fn connect(name: &NodeName, epmd_port: u16) -> io::Result<DialedNode> {
    let host = (name.host(), epmd_port).to_socket_addrs()?;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for epmd in host {
        match connect_via(name, epmd) {
            Ok(answered) => return Ok(answered),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn connect_via(name: &NodeName, epmd: SocketAddr) -> io::Result<DialedNode> {
    let mut mapper = TcpStream::connect_timeout(&epmd, STEP_TIME)?;
    mapper.set_read_timeout(Some(STEP_TIME))?;
    mapper.write_all(&epmd::look_up(name))?;
    let mut answer = Vec::new();
    mapper.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let endpoint = epmd::read_look_up(&answer)
        .map_err(|epmd::Malformed| io::Error::other("the answer of epmd is malformed"))?
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "epmd does not know the node"))?;
    let address = SocketAddr::new(epmd.ip(), endpoint.port);
    let node = TcpStream::connect_timeout(&address, STEP_TIME)?;
    node.set_nodelay(true)?;
    node.set_nonblocking(true)?;
    Ok(DialedNode {
        socket: node.into(),
        address,
        version: endpoint.highest_version,
    })
}
