//! One turn of the node's thread: read, act, send.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use reactor::{
    Accepted, Acceptor, Clock, Driver as Kernel, EventLoop, Handler, Interest, RateLimitedWarnings,
    Received, Sent, Signal, Tick, Timing, Token,
};
use router::Mailboxes;
use server::{ExternalWorker, WorkerCommand};

use super::dial::DialResults;
use super::id_terms_file::IdTermsFile;
use crate::connections::ConnectionId;
use crate::limits::{ACCEPTS_PER_TURN_MAX, READ_BLOCK_BYTES, READS_PER_TURN_MAX};
use crate::metrics::{Metric, NodeCounters};
use crate::node::{Effect, Node};
use crate::node_name::NodeName;

/// Shortest time between two warnings that the node cannot accept.
const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// What to do when descriptors run out.
const MORE_DESCRIPTORS: &str =
    "an Erlang node waits; raise the limit on open files (ulimit -n, LimitNOFILE=)";

/// A node with its sockets.
pub(crate) struct Driver<M, K: Kernel> {
    pub(crate) node: Node<M>,
    worker: Arc<ExternalWorker>,
    kernel: K,
    acceptor: Acceptor<K::Listener>,
    sockets: HashMap<ConnectionId, Socket<K::Socket>>,
    dial: Dial,
    dial_results: DialResults<K::Socket>,
    id_terms_file: Option<IdTermsFile>,
    /// Connections that may hold unread bytes and will not signal again.
    unread: Vec<ConnectionId>,
    block: Vec<u8>,
    is_draining: bool,
    /// The error that ends the thread.
    failure: Option<io::Error>,
}

/// Connects to a node, and adds the outcome to [`DialResults`].
pub(crate) type Dial = Box<dyn Fn(ConnectionId, NodeName)>;

struct Socket<S> {
    socket: S,
    /// Whether the poller reports that the socket is writable.
    is_write_watched: bool,
    /// Whether reading waits until the send buffer is empty.
    is_paused: bool,
}

/// Returns a random number.
///
/// # Errors
///
/// When the kernel cannot provide one.
pub(super) fn random_u32() -> io::Result<u32> {
    let mut bytes = [0; 4];
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    debug_assert_eq!(count, bytes.len(), "getrandom fills small buffers at once");
    Ok(u32::from_ne_bytes(bytes))
}

impl<M: Mailboxes, K: Kernel> Driver<M, K> {
    /// `listen` opens the listener where other nodes connect.
    pub(crate) fn new(
        mut node: Node<M>,
        worker: Arc<ExternalWorker>,
        mut kernel: K,
        listen: impl FnOnce(&mut K, Token) -> io::Result<K::Listener>,
        (dial, dial_results): (Dial, DialResults<K::Socket>),
        id_terms_file: Option<IdTermsFile>,
    ) -> io::Result<Self> {
        let warnings = RateLimitedWarnings::new(ACCEPT_WARNING_INTERVAL);
        let mut acceptor = Acceptor::new(warnings, MORE_DESCRIPTORS);
        acceptor.open(&mut kernel, (), listen)?;
        node.now = kernel.now();
        Ok(Self {
            node,
            worker,
            kernel,
            acceptor,
            sockets: HashMap::new(),
            dial,
            dial_results,
            id_terms_file,
            unread: Vec::new(),
            block: vec![0; READ_BLOCK_BYTES],
            is_draining: false,
            failure: None,
        })
    }

    /// Runs the node until the server drains its workers.
    pub(super) fn run(mut self) -> io::Result<()> {
        EventLoop::new(&self.kernel).run(&mut self)?;
        self.node.observe_drain();
        self.worker.close_mailbox();
        self.failure.map_or(Ok(()), Err)
    }

    /// Returns a random number for a challenge. If there is none, the thread ends.
    fn challenge(&mut self) -> Option<u32> {
        match random_u32() {
            Ok(number) => Some(number),
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    fn watch(&mut self, connection: ConnectionId, socket: K::Socket) {
        let token = Token::tagged_number(0, connection.0.into());
        self.node.metrics.add(Metric::Watches, 1);
        if self
            .kernel
            .watch(&socket, token, Interest::Readable)
            .is_err()
        {
            return self.node.ended(connection);
        }
        let socket = Socket {
            socket,
            is_write_watched: false,
            is_paused: false,
        };
        self.sockets.insert(connection, socket);
    }

    /// Reads from a connection, a bounded number of times in each turn.
    fn read(&mut self, connection: ConnectionId) {
        for _ in 0..READS_PER_TURN_MAX {
            let Some(socket) = self.sockets.get_mut(&connection) else {
                return;
            };
            if !self.node.may_read(connection) {
                socket.is_paused = true;
                return;
            }
            self.node.metrics.add(Metric::Receives, 1);
            match self.kernel.recv(&socket.socket, &mut self.block) {
                Received::Bytes(count) => {
                    self.node.metrics.add(Metric::BytesRead, count as u64);
                    self.node.receive(connection, &self.block[..count]);
                }
                Received::Blocked => return,
                Received::Ended | Received::Failed(_) => {
                    self.node.ended(connection);
                    return;
                }
            }
        }
        self.unread.push(connection);
    }

    /// Applies the outcomes of connection attempts.
    fn apply_dial_results(&mut self) {
        let dial_results = std::mem::take(&mut *self.dial_results.lock());
        for (connection, outcome) in dial_results {
            match outcome {
                Ok(answered) => {
                    let Some(challenge) = self.challenge() else {
                        return;
                    };
                    let (address, version) = (answered.address, answered.version);
                    if self.node.dialed(connection, address, version, challenge) {
                        self.watch(connection, answered.socket);
                    }
                }
                Err(error) => {
                    tracing::debug!("cannot connect to an Erlang node: {error}");
                    self.node.ended(connection);
                }
            }
        }
    }

    fn run_commands(&mut self) {
        let commands: Vec<_> = self.worker.take_commands().collect();
        for command in commands {
            match command {
                WorkerCommand::Deliver(parcel) => self.node.deliver(parcel),
                WorkerCommand::Inspect(recipients, report) => report(self.node.report(&recipients)),
                WorkerCommand::Close(recipients) => self.node.close_sessions(&recipients),
                WorkerCommand::Lost(lost) => self.node.note_losses(&lost),
                WorkerCommand::LostByAny => self.node.note_loss_by_any(),
                WorkerCommand::Presence(edges) => {
                    self.node.tell_presence(edges.iter());
                    self.worker.release_presence(&edges);
                }
                WorkerCommand::PresenceSnapshots => self.node.begin_snapshots(),
                WorkerCommand::PresenceChanged(sessions) => {
                    self.node.schedule_snapshots(&sessions);
                }
                WorkerCommand::Drain => self.is_draining = true,
            }
        }
    }

    /// Writes new original terms of ids to disk, before the calls that added them are answered.
    fn save_id_terms(&mut self) {
        let id_terms = &mut self.node.id_terms;
        if let Some(id_terms_file) = &mut self.id_terms_file
            && let Err(error) = id_terms_file.append(id_terms)
        {
            tracing::error!(
                "the original terms of ids can no longer be written to disk: {error}; after a \
                 restart, new ids are sent as binaries"
            );
            id_terms.stop_recording();
            self.id_terms_file = None;
        }
    }

    /// Sends unsent bytes until the sockets are full.
    fn flush(&mut self) {
        debug_assert!(
            !self.node.id_terms.has_unsaved(),
            "a call is answered before the terms of its ids are on disk"
        );
        let mut to_flush = std::mem::take(&mut self.node.connections.to_flush);
        to_flush.sort_unstable();
        to_flush.dedup();
        for connection in to_flush {
            self.flush_one(connection);
        }
    }

    fn flush_one(&mut self, id: ConnectionId) {
        let now = self.node.now;
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        while let Some(connection) = self.node.connections.get_mut(id) {
            connection.write_queued();
            if connection.send_buffer.is_empty() {
                connection.stalled_since = None;
                if std::mem::take(&mut socket.is_paused) {
                    self.unread.push(id);
                }
                return;
            }
            self.node.metrics.add(Metric::Sends, 1);
            match self
                .kernel
                .send(&socket.socket, &[connection.send_buffer.unsent()])
            {
                Sent::Bytes(count) => {
                    self.node.metrics.add(Metric::BytesWritten, count as u64);
                    connection.send_buffer.advance(count);
                    connection.last_sent = now;
                    connection.stalled_since = None;
                }
                Sent::Blocked => {
                    connection.stalled_since.get_or_insert(now);
                    if !socket.is_write_watched {
                        socket.is_write_watched = true;
                        let token = Token::tagged_number(0, id.0.into());
                        self.node.metrics.add(Metric::Watches, 1);
                        if self.kernel.watch_writable(&socket.socket, token).is_err() {
                            self.node.ended(id);
                        }
                    }
                    return;
                }
                Sent::Failed(_) => return self.node.ended(id),
            }
        }
    }

    fn settle_parcels(&mut self) {
        for (parcel, counts) in self.node.take_completed_parcels() {
            self.worker.settle(&parcel, counts);
        }
    }

    /// Applies the effects that the node has requested.
    fn apply_effects(&mut self) {
        for effect in std::mem::take(&mut self.node.effects) {
            match effect {
                Effect::Dial(connection, name) => (self.dial)(connection, name),
                Effect::Close(connection, last) => {
                    let socket = self.sockets.remove(&connection);
                    // Its descriptor is free at the end of this turn.
                    self.acceptor.resume_soon(self.node.now);
                    if let Some(socket) = socket
                        && !last.is_empty()
                    {
                        // A refusal. It fits into the socket's empty buffer; if it does not, it is
                        // dropped.
                        let _ = self.kernel.send(&socket.socket, &[&last]);
                    }
                }
            }
        }
    }
}

impl<M: Mailboxes, K: Kernel> Handler for Driver<M, K> {
    type Driver = K;
    type Counters = NodeCounters;

    fn driver(&mut self) -> &mut K {
        &mut self.kernel
    }

    fn counters(&self) -> &NodeCounters {
        &self.node.metrics
    }

    fn may_sleep(&self) -> bool {
        // Dial results and login questions have no mailbox. They are checked after the thread has
        // announced its sleep, because later ones wake it up.
        self.worker.may_sleep() && self.dial_results.lock().is_empty() && !self.node.is_busy()
    }

    fn wake_up(&self) {
        self.worker.wake_up();
    }

    fn has_work(&self) -> bool {
        !self.unread.is_empty() || self.node.is_busy() || !self.node.connections.to_flush.is_empty()
    }

    fn next_deadline(&self, now: Tick) -> Option<Duration> {
        self.node
            .timeout()
            .into_iter()
            .chain(self.acceptor.resume_in(now))
            .min()
    }

    fn begin(&mut self, clock: Clock) {
        self.node.now = clock.now;
        self.node.unix_seconds = clock.unix_seconds;
        for connection in std::mem::take(&mut self.unread) {
            self.read(connection);
        }
    }

    fn on_listener(&mut self, id: u32) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            let counters: &NodeCounters = &self.node.metrics;
            match self
                .acceptor
                .accept(&mut self.kernel, counters, self.node.now, id)
            {
                Accepted::Connection(socket, address) => {
                    let Some(challenge) = self.challenge() else {
                        return;
                    };
                    if let Some(connection) = self.node.accepted(address, challenge) {
                        self.watch(connection, socket);
                    }
                }
                Accepted::Gone => {}
                Accepted::Nobody | Accepted::Exhausted(_) => return,
            }
        }
    }

    fn on_signal(&mut self, signal: Signal) {
        let connection = ConnectionId(signal.token.number() as u32);
        if signal.writable {
            self.node.connections.schedule_flush(connection);
        }
        if signal.readable {
            self.read(connection);
        }
    }

    fn finish(&mut self, _: &mut Timing) {
        self.apply_dial_results();
        self.run_commands();
        self.node.answer_completed();
        self.node.ask_logins();
        self.node.serve_notices();
        self.save_id_terms();
        self.node.run_deadlines();
        self.acceptor.resume_if_due(&mut self.kernel, self.node.now);
        self.flush();
        self.settle_parcels();
        self.apply_effects();
    }

    fn is_over(&self) -> bool {
        self.is_draining || self.failure.is_some()
    }
}
