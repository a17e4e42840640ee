//! The node's one thread: sockets, the clock and chance, for a node that knows none of them.

#[expect(
    clippy::disallowed_types,
    reason = "a thread for each dial, as it waits for its socket"
)]
mod dial;
#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the one file that the node keeps"
)]
mod id_terms_file;
#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a thread of its own, which waits for its socket and between attempts"
)]
mod epmd_registration;
mod turn;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use reactor::{ListenerOptions, Reservation, Snapshot};
use server::{ExternalWorker, Handle};

use crate::cookie::Cookie;
use crate::handshake::LocalNode;
use crate::metrics::NodeCounters;
use crate::node::{Config, Node};
use crate::node_name::NodeName;
use dial::DialResult;
pub use id_terms_file::ID_TERMS_FILE;
use id_terms_file::IdTermsFile;
use turn::Driver;

/// Nodes that may wait to be accepted.
const LISTEN_BACKLOG: i32 = 128;

/// A peer that acknowledges nothing for so long is gone.
const USER_TIMEOUT: Duration = Duration::from_secs(60);

/// What the node is to be.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name.
    pub name: NodeName,
    /// The cluster's secret.
    pub cookie: Cookie,
    /// Where other nodes connect; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Nodes to connect with, now and whenever the connection is lost.
    pub connect: Vec<NodeName>,
    /// The port of epmd, on this host and on others.
    pub epmd_port: u16,
    /// Whether to start epmd where none answers.
    pub start_epmd: bool,
    /// Silence after which a peer is gone: `net_ticktime`, which all nodes of a cluster share.
    pub tick_time: Duration,
    /// Bytes of the largest event.
    pub event_bytes_max: usize,
    /// The directory that keeps how ids were spelt, where the graph is kept as well.
    pub data: Option<PathBuf>,
}

/// A node that runs until the server ends.
pub struct Running {
    address: SocketAddr,
    thread: JoinHandle<io::Result<()>>,
}

/// What other threads tell the node's.
#[derive(Default)]
struct DialResults(Mutex<Vec<DialResult>>);

/// Starts the node. It lives in the worker's place among the workers.
///
/// # Errors
///
/// When the address cannot be had, the data directory not be used, or no thread be started.
pub fn start(settings: Settings, handle: &Handle, worker: ExternalWorker) -> io::Result<Running> {
    let cannot_listen = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("it cannot listen: {error}; give another address with --erlang-listen"),
        )
    };
    let reservation = Reservation::claim(settings.listen).map_err(cannot_listen)?;
    let address = reservation.address();
    let options = ListenerOptions {
        backlog: LISTEN_BACKLOG,
        user_timeout: USER_TIMEOUT,
        keepalive: Some(USER_TIMEOUT),
        defer_accept: None,
        fast_open: None,
    };
    let listener = reactor::listen(address, &options).map_err(cannot_listen)?;
    drop(reservation);
    let worker = Arc::new(worker);
    let me = LocalNode {
        name: settings.name.clone(),
        cookie: settings.cookie.clone(),
        // Small ones are left to nodes that get theirs from epmd.
        creation: turn::random_u32()? | 1 << 31,
    };
    let ring = {
        let worker = Arc::clone(&worker);
        Box::new(move || worker.ring())
    };
    let router = handle.router_shared();
    let kept = settings.data.as_deref();
    let kept = kept.map(|data| IdTermsFile::open(data, router.graph()));
    let (id_terms_file, id_terms) = kept.transpose()?.unzip();
    let config = Config {
        me,
        worker: worker.id(),
        event_bytes_max: settings.event_bytes_max,
        tick_time: settings.tick_time,
        connect: settings.connect.clone(),
    };
    let metrics = Arc::<NodeCounters>::default();
    let counters = Arc::clone(&metrics);
    handle.add_metrics(worker.id(), move || Snapshot::of([&*counters].into_iter()));
    epmd_registration::keep_registered(&settings, address.port())?;
    let epmd_port = settings.epmd_port;
    let run = move |table: io::Result<()>| {
        table?;
        let mut node = Node::new(config, router, metrics, ring);
        node.registry.id_terms = id_terms.unwrap_or_default();
        Driver::new(node, worker, listener, &options, epmd_port, id_terms_file)?.run()
    };
    let thread = reactor::spawn("encke-erlang".to_owned(), false, run)?;
    Ok(Running { address, thread })
}

impl Running {
    /// Where other nodes connect.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the end, which comes when the server is drained.
    ///
    /// # Errors
    ///
    /// When the poller failed.
    pub fn join(self) -> io::Result<()> {
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the Erlang node panicked")))
    }
}
