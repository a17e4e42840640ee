//! Thread of the node, which provides sockets, clock and random numbers.

#[expect(
    clippy::disallowed_types,
    reason = "a thread for each connection attempt, which blocks"
)]
pub(crate) mod dial;
#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the only file that the node writes"
)]
mod id_terms_file;
#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "its own thread, which blocks in reads and sleeps between attempts"
)]
mod epmd_registration;
pub(crate) mod turn;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use reactor::{Keepalive, ListenerOptions, Reservation, Snapshot, System};
use replication::Append;
use server::{ExternalWorker, Handle};

use crate::cookie::Cookie;
use crate::handshake::LocalNode;
use crate::login_check::{LoginCheck, LoginQuestions, ProcessChecker, QuestionQueue};
use crate::metrics::NodeCounters;
use crate::node::{Config, Node};
use crate::node_name::NodeName;
use id_terms_file::IdTermsFile;
use turn::Driver;

/// Length of the accept queue.
const LISTEN_BACKLOG: i32 = 128;

/// Close a connection whose peer acknowledges no data for this long (`TCP_USER_TIMEOUT`).
const USER_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings of the node.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The node's name.
    pub name: NodeName,
    /// The cookie of the cluster.
    pub cookie: Cookie,
    /// The address where other nodes connect; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Nodes to stay connected with.
    pub connect: Vec<NodeName>,
    /// The process that decides on logins of clients, if there is one. The node also stays
    /// connected with that process's node.
    pub login_check: Option<LoginCheck>,
    /// The port of epmd, on this host and on others.
    pub epmd_port: u16,
    /// Whether to start epmd if none answers.
    pub start_epmd: bool,
    /// Time without data after which a peer is disconnected: `net_ticktime`, the same in all nodes
    /// of a cluster.
    pub tick_time: Duration,
    /// Size of the largest event in bytes.
    pub event_bytes_max: usize,
    /// The data directory of the graph, which also keeps the original terms of ids.
    pub data: Option<PathBuf>,
}

/// A running node. It stops with the server.
pub struct Running {
    address: SocketAddr,
    thread: JoinHandle<io::Result<()>>,
}

/// Starts the node as an external worker of the server. With the `log` of a cluster of servers, its
/// processes publish and change through it.
///
/// # Errors
///
/// When the node cannot listen, cannot use the data directory, or cannot start a thread.
pub fn start(
    settings: Settings,
    handle: &Handle,
    worker: ExternalWorker,
    log: Option<Arc<dyn Append>>,
) -> io::Result<Running> {
    let cannot_listen = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("cannot listen: {error}; choose another address with --erlang-listen"),
        )
    };
    let reservation = Reservation::claim(settings.listen).map_err(cannot_listen)?;
    let address = reservation.address();
    let options = ListenerOptions {
        backlog: LISTEN_BACKLOG,
        user_timeout: USER_TIMEOUT,
        keepalive: Some(Keepalive::new(USER_TIMEOUT, USER_TIMEOUT)),
        defer_accept: None,
        fast_open: None,
        send_buffer: None,
    };
    let listener = reactor::listen(address, &options).map_err(cannot_listen)?;
    drop(reservation);
    let worker = Arc::new(worker);
    let me = LocalNode {
        name: settings.name.clone(),
        cookie: settings.cookie.clone(),
        // epmd gives small creations to other nodes, so values with the highest bit set cannot
        // collide.
        creation: turn::random_u32()? | 1 << 31,
    };
    let ring = {
        let worker = Arc::clone(&worker);
        Box::new(move || worker.ring())
    };
    let logins = settings.login_check.clone().map(|check| {
        let worker = Arc::clone(&worker);
        let queue = QuestionQueue::new(&check, Box::new(move || worker.ring()));
        handle.check_logins_with(Box::new(ProcessChecker(Arc::clone(&queue))));
        LoginQuestions::new(check, queue)
    });
    let router = handle.router_shared();
    let server = handle.clone();
    let data = settings.data.as_deref();
    // In a cluster the node starts before its graph has applied the whole log.
    let is_behind = log.is_some();
    let data = data.map(|data| IdTermsFile::open(data, router.graph(), is_behind));
    let (id_terms_file, id_terms) = data.transpose()?.unzip();
    let mut connect = settings.connect.clone();
    let login_check = settings.login_check.as_ref();
    connect.extend(login_check.map(|check| check.process.node().clone()));
    connect.dedup();
    let config = Config {
        me,
        worker: worker.id(),
        event_bytes_max: settings.event_bytes_max,
        tick_time: settings.tick_time,
        connect,
        log,
        is_paused: Box::new(move || server.is_paused()),
        presence: worker.presence().cloned(),
        observer: worker.observer().cloned(),
    };
    let metrics = Arc::<NodeCounters>::default();
    let counters = Arc::clone(&metrics);
    handle.add_metrics(worker.id(), move || Snapshot::of([&*counters].into_iter()));
    epmd_registration::keep_registered(&settings, address.port())?;
    let epmd_port = settings.epmd_port;
    let run = move |table: io::Result<()>| {
        table?;
        let mut node = Node::new(config, router, logins, metrics, ring);
        node.id_terms = id_terms.unwrap_or_default();
        let kernel = System::new(worker.as_ref())?;
        let dialing = dial::dialer(epmd_port, &worker);
        let listen = |kernel: &mut System, token| kernel.adopt(listener, &options, token);
        Driver::new(node, worker, kernel, listen, dialing, id_terms_file)?.run()
    };
    let thread = reactor::spawn("encke-erlang".to_owned(), false, run)?;
    Ok(Running { address, thread })
}

impl Running {
    /// Returns the address where other nodes connect.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the node stops, which it does when the server is drained.
    ///
    /// # Errors
    ///
    /// When the poller has failed.
    pub fn join(self) -> io::Result<()> {
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the Erlang node panicked")))
    }
}
