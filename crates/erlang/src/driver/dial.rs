//! Connection attempts to other nodes: resolve the host, ask its epmd for the port, connect. Each
//! step may block, so each attempt has its own thread.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use server::ExternalWorker;

use super::turn::Dial;
use crate::connections::ConnectionId;
use crate::epmd;
use crate::limits::DIAL_THREADS_MAX;
use crate::node_name::NodeName;

/// Time limit of each step.
const STEP_TIME: Duration = Duration::from_secs(5);

/// Longest answer of epmd in bytes: a name and a few numbers.
const ANSWER_BYTES_MAX: u64 = 1024;

/// Outcomes of connection attempts, passed to the node's thread.
pub(crate) type DialResults<S> = Arc<Mutex<Vec<(ConnectionId, io::Result<DialedNode<S>>)>>>;

/// A node that has accepted the connection.
pub(crate) struct DialedNode<S> {
    pub(super) socket: S,
    pub(super) address: SocketAddr,
    pub(super) version: u16,
}

/// Returns what connects to a node on a new thread, and where it adds the outcomes.
pub(super) fn dialer(epmd_port: u16, worker: &Arc<ExternalWorker>) -> (Dial, DialResults<OwnedFd>) {
    let results = DialResults::default();
    let (shared, worker) = (Arc::clone(&results), Arc::clone(worker));
    // Has a further clone for each dialing thread.
    let threads = Arc::new(());
    let start = move |connection, name: NodeName| {
        let (results, worker) = (Arc::clone(&shared), Arc::clone(&worker));
        let report = move |outcome| {
            results.lock().push((connection, outcome));
            worker.ring();
        };
        let refuse = report.clone();
        if Arc::strong_count(&threads) > DIAL_THREADS_MAX {
            return refuse(Err(io::Error::other("too many nodes are dialed at once")));
        }
        let running = Arc::clone(&threads);
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
    };
    (Box::new(start), results)
}

fn connect(name: &NodeName, epmd_port: u16) -> io::Result<DialedNode<OwnedFd>> {
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

fn connect_via(name: &NodeName, epmd: SocketAddr) -> io::Result<DialedNode<OwnedFd>> {
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_answer_of_epmd_without_end_is_not_read_on() {
        let epmd = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = epmd.local_addr().unwrap();
        let dial = move || connect_via(&"peer@h".parse().unwrap(), address);
        let dial = thread::Builder::new().spawn(dial).unwrap();
        let (mut connection, _) = epmd.accept().unwrap();
        connection.write_all(&[0; 4096]).unwrap();
        // The connection stays open, and nothing more comes.
        let error = dial.join().unwrap().err().unwrap();
        assert!(error.to_string().contains("malformed"), "{error}");
        drop(connection);
    }
}
