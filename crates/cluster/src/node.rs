//! The node: the tasks and threads of a server in a cluster.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_nats::Client;
use parking_lot::Mutex;
use replication::{
    Append, Command, Done, DrainDone, DrainError, Membership, Reader, Refused, Status,
    StreamSequence, Wait, Writer, WriterOptions,
};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Notify, mpsc};

use crate::consumer::{Consumer, End, MESSAGES_MAX};
use crate::contact::Contact;
use crate::doubt::Doubt;
use crate::drain;
use crate::engine::Engine;
use crate::engine_view::EngineView;
use crate::error::JoinError;
use crate::host::Host;
use crate::incarnations;
use crate::inquiry::{self, Inquiry};
use crate::options::{Name, Options};
use crate::peers::{ANSWERS_WAITING_MAX, Links, Peers};
use crate::readiness::{LEADERLESS_MAX, SILENCE_MAX, Signs};
use crate::reading::{Apply, ApplyThread};
use crate::reports::Reports;
use crate::sending::{Outbox, Sender, UNAVAILABLE, refuse};
use crate::shared::Shared;
use crate::stop::{Stop, StopKind};
use crate::stream::LogStream;
use crate::waiting::Waiting;

/// Time that tasks have to end with the node.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A running node of a cluster. Shared by all callers that append.
pub struct Cluster {
    name: Box<str>,
    epoch: Box<str>,
    /// Last entry of the log when the node joined.
    at_start: u64,
    outbox: Arc<Outbox>,
    peers: Arc<Peers>,
    shared: Arc<Shared>,
    client: Client,
    cluster: Name,
    host: Arc<dyn Host>,
    handle: Handle,
    runtime: Mutex<Option<Runtime>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Cluster {
    /// Starts reading and writing the log. `version` is the version of this program, `host` the
    /// server of this node.
    ///
    /// # Errors
    ///
    /// When another node has the same name, the log no longer has the entry that the node must read
    /// next, or a thread cannot be started.
    pub fn start<A: Apply>(
        engine: Engine,
        options: &Options,
        version: &str,
        applier: A,
        host: Arc<dyn Host>,
    ) -> Result<Arc<Self>, JoinError> {
        let Engine {
            runtime,
            client,
            counts,
            stream,
            state,
        } = engine;
        let failed = |reason: String| JoinError::Request { reason };
        let checkpoint = applier.start();
        state.check_start(checkpoint.read)?;
        let writer_options =
            WriterOptions::new(options.node.as_str(), version, client.max_payload())
                .ok_or_else(|| failed(format!("the version {version:?} is too long")))?;
        let incarnation = incarnations::random()
            .ok_or_else(|| failed("the system has no random bits".to_owned()))?;
        runtime.block_on(drain::check_name(&client, options, incarnation))?;
        let contact = Arc::new(Contact::new(checkpoint.read.number()));
        contact.learn_last(state.last);
        let outbox = Arc::new(Outbox {
            writer: Mutex::new(Some(Writer::new(
                writer_options,
                incarnation,
                checkpoint.read,
            ))),
            contact: Arc::clone(&contact),
            wake: Notify::new(),
        });
        let shared = Arc::new(Shared {
            log: Mutex::new(state.clone()),
            connection: counts,
            ..Shared::default()
        });
        let (answers, outgoing) = mpsc::channel(ANSWERS_WAITING_MAX);
        let mut membership = Membership::default();
        membership.sync(contact.now(), &checkpoint.table);
        let peers = Arc::new(Peers {
            receipts: Mutex::default(),
            membership: Mutex::new(membership),
            namesake: OnceLock::new(),
            answers,
        });
        let links = Links {
            client: client.clone(),
            cluster: options.cluster.clone(),
            node: options.node.as_str().into(),
            version: version.into(),
            peers: Arc::clone(&peers),
            outbox: Arc::clone(&outbox),
            host: Arc::clone(&host),
        };
        let (output, messages) = mpsc::channel(MESSAGES_MAX);
        let apply_thread = ApplyThread {
            applier,
            outbox: Arc::clone(&outbox),
            peers: Arc::clone(&peers),
            counts: Arc::clone(&shared.reads),
            runtime: runtime.handle().clone(),
            reader: Reader::new(checkpoint.clone()),
        };
        let stopped = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("encke-apply".to_owned())
            .spawn(move || {
                if let Err(reason) = apply_thread.run(messages) {
                    stopped.stop(StopKind::Entry, reason);
                }
            })
            .map_err(|error| failed(format!("the apply thread cannot be started: {error}")))?;
        let consumer = Consumer::new(
            client.clone(),
            stream.clone(),
            checkpoint.read.next().number(),
            output,
            Arc::clone(&shared.consumers),
            Arc::clone(&contact),
        );
        let subscribed = runtime.block_on(links.subscribe());
        let (heartbeats, incoming) = subscribed.map_err(|error| failed(error.to_string()))?;
        runtime.spawn(links.run(heartbeats, incoming, outgoing));
        let (signs, at_start) = ((Arc::clone(&outbox), Arc::clone(&shared)), state.last);
        let reports = Reports {
            client: client.clone(),
            cluster: options.cluster.clone(),
            node: options.node.as_str().into(),
            peers: Arc::clone(&peers),
            outbox: Arc::clone(&outbox),
            host: Arc::clone(&host),
            connection: Arc::clone(&shared.connection),
            is_ready: Box::new(move || {
                let (outbox, shared) = &signs;
                shared.signs(outbox, at_start).not_ready().is_none()
            }),
        };
        let subscribed = runtime.block_on(reports.subscribe());
        let (heard, asked) = subscribed.map_err(|error| failed(error.to_string()))?;
        runtime.spawn(reports.run(heard, asked));
        start_tasks(
            &runtime,
            &client,
            stream.clone(),
            consumer,
            &outbox,
            &shared,
        )?;
        Ok(Arc::new(Self {
            name: options.node.as_str().into(),
            epoch: stream.epoch.into(),
            at_start: state.last,
            outbox,
            peers,
            shared,
            client,
            cluster: options.cluster.clone(),
            host,
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
            thread: Mutex::new(Some(thread)),
        }))
    }
}

impl Cluster {
    /// Leaves the cluster: ends the incarnation in the log, answers all pending appends and ends
    /// all threads.
    pub fn end(&self) {
        let Some(runtime) = self.runtime.lock().take() else {
            return;
        };
        self.say_goodbye();
        let writer = self.outbox.writer.lock().take();
        refuse(writer.map(Writer::end).unwrap_or_default());
        runtime.shutdown_timeout(END_TIMEOUT);
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }

    /// Returns whether all entries that were in the log at the start are applied.
    pub fn has_caught_up(&self) -> bool {
        self.outbox.contact.places().0 >= self.at_start
    }

    /// Returns why the node has stopped applying entries; `None` if it has not.
    pub fn stopped(&self) -> Option<&Stop> {
        self.shared.stopped.get()
    }

    /// Returns why the node must end, if there is an earlier one with its name.
    pub fn namesake(&self) -> Option<JoinError> {
        let incarnation = *self.peers.namesake.get()?;
        let node = self.name.to_string();
        Some(JoinError::NameTaken { node, incarnation })
    }

    /// Returns how long this node has been cut off from a log that other nodes may still read: the
    /// time since the engine last answered or, if another node is silent, since the leader did. If
    /// all other nodes send heartbeats, the log has no leader for any of them, and clients are no
    /// better off elsewhere.
    pub fn cut_off(&self) -> Duration {
        let contact = &self.outbox.contact;
        let own = self.outbox.with(|writer| writer.incarnation()).flatten();
        let hears_all = self.peers.membership.lock().hears_all(contact.now(), own);
        match hears_all {
            true => contact.silence(),
            false => contact.silence().max(contact.leaderless()),
        }
    }

    /// Ends the incarnation with an entry, so that other nodes do not wait for this one.
    fn say_goodbye(&self) {
        let incarnation = self.outbox.with(|writer| writer.incarnation()).flatten();
        let Some(incarnation) = incarnation else {
            return;
        };
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        let gone = vec![Command::NodeGone { incarnation }];
        let done: Done = Box::new(move |outcome| {
            // The receiver is only gone after its timeout.
            let _ = answer.send(outcome);
        });
        self.append(gone, Wait::Logged, done);
        let _ = answered.recv_timeout(END_TIMEOUT);
    }

    fn signs(&self) -> Signs<'_> {
        self.shared.signs(&self.outbox, self.at_start)
    }
}

impl Append for Cluster {
    fn append(&self, commands: Vec<Command>, wait: Wait, done: Done) {
        let waiting = Waiting::new(wait, done);
        let contact = &self.outbox.contact;
        // An append to an engine that is unreachable or has lost its majority would wait, and its
        // result would be unknown.
        let is_away = contact.silence() > SILENCE_MAX || contact.leaderless() > LEADERLESS_MAX;
        if is_away || self.shared.stopped.get().is_some() {
            return waiting.refuse(UNAVAILABLE);
        }
        // The lock is released before the callback is called.
        if let Err(Refused { token, error }) = self.outbox.append(&commands, waiting) {
            token.refuse(error);
        }
    }

    fn status(&self) -> Status {
        let contact = &self.outbox.contact;
        let (applied, last) = contact.places();
        let sequence = |number| StreamSequence::new(number).unwrap_or(StreamSequence::MAX);
        let of_writer = self.outbox.with(|writer| {
            let (in_flight, bytes) = (writer.in_flight(), writer.waiting_bytes());
            (writer.incarnation(), in_flight, bytes, writer.resent())
        });
        let (incarnation, in_flight, waiting_bytes, resent) = of_writer.unwrap_or_default();
        let signs = self.signs();
        Status {
            node: self.name.clone(),
            incarnation,
            epoch: self.epoch.clone(),
            not_ready: signs.not_ready().map(String::into_boxed_str),
            is_connected: signs.is_connected(),
            applied: sequence(applied),
            last: sequence(last),
            lag: signs.lag,
            in_flight,
            waiting_bytes,
            entries: self.shared.reads.applied.load(Ordering::Relaxed),
            skipped: self.shared.reads.skipped.load(Ordering::Relaxed),
            resent,
            engine: EngineView {
                client: &self.client,
                log: self.shared.log.lock().clone(),
                connection: &self.shared.connection,
                consumers: &self.shared.consumers,
            }
            .status(signs.leaderless),
            nodes: self.peers.membership.lock().status(contact.now()),
        }
    }

    fn drain(&self, node: &str, done: DrainDone) {
        let now = self.outbox.contact.now();
        let found = {
            let membership = self.peers.membership.lock();
            let names = || membership.status(now).into_iter().map(|node| node.name);
            membership
                .find(now, node)
                .ok_or_else(|| DrainError::Unknown {
                    names: names().collect(),
                })
        };
        let own = self.outbox.with(|writer| writer.incarnation()).flatten();
        match found {
            // A request to this node needs no engine.
            Ok(node) if own == Some(node.incarnation) => {
                self.host.drain();
                done(Ok(node.incarnation));
            }
            Ok(_) if self.outbox.contact.silence() > SILENCE_MAX => {
                done(Err(DrainError::Unreachable));
            }
            Ok(node) => {
                let asked = drain::drain(self.client.clone(), self.cluster.clone(), node);
                self.handle.spawn(async move { done(asked.await) });
            }
            Err(error) => done(Err(error)),
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.name)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// Starts the tasks that read, send, receive answers and request the state of the log.
fn start_tasks(
    runtime: &Runtime,
    client: &Client,
    stream: LogStream,
    consumer: Consumer,
    outbox: &Arc<Outbox>,
    shared: &Arc<Shared>,
) -> Result<(), JoinError> {
    let inbox = client.new_inbox();
    let answers = runtime.block_on(client.subscribe(format!("{inbox}.>")));
    let answers = answers.map_err(|error| JoinError::Request {
        reason: format!("the cluster's engine accepts no subscription: {error}"),
    })?;
    runtime.spawn(Arc::clone(outbox).take_answers(answers));
    let sender = Sender {
        outbox: Arc::clone(outbox),
        client: client.clone(),
        subject: stream.subject.clone(),
        inbox,
        may_end_at: AtomicU64::new(0),
    };
    runtime.spawn(sender.run());
    let reading = Arc::clone(shared);
    runtime.spawn(async move {
        let (kind, reason) = match consumer.run().await {
            End::Closed => return,
            End::Trimmed { next, first } => (StopKind::Trimmed, JoinError::Trimmed { next, first }),
            End::Rewritten { sequence } => (StopKind::OtherLog, JoinError::Rewritten { sequence }),
        };
        reading.stop(kind, reason.to_string());
    });
    let contact = Arc::clone(&outbox.contact);
    runtime.spawn(inquiry::hear_server(stream.clone(), contact));
    let inquiry = Inquiry {
        stream,
        contact: Arc::clone(&outbox.contact),
        shared: Arc::clone(shared),
        other_log: Doubt::default(),
        wrong: String::new(),
        may_change_at: Duration::ZERO,
    };
    runtime.spawn(inquiry.run());
    Ok(())
}
