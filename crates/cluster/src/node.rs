//! The node: the tasks and threads of a server in a cluster.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_nats::SubscribeError;
use parking_lot::Mutex;
use replication::{
    Append, Command, Done, DrainDone, DrainError, Membership, Reader, Refused, Status,
    StreamSequence, Wait, Writer, WriterOptions,
};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc};

use crate::consumer::{Consumer, MESSAGES_MAX};
use crate::contact::Contact;
use crate::drain;
use crate::engine::Engine;
use crate::error::{JoinError, Stop, StopKind};
use crate::incarnations;
use crate::inquiry::{self, Inquiry};
use crate::links::{ANSWERS_WAITING_MAX, Links};
use crate::options::Options;
use crate::outbox::{Outbox, UNAVAILABLE, refuse};
use crate::readiness::{LEADERLESS_MAX, SILENCE_MAX};
use crate::reading::{Apply, ApplyThread};
use crate::sending::{self, Sender};
use crate::shared::{Counts, Host, Shared};
use crate::waiting::Waiting;

/// Time that tasks have to end with the node.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A running node of a cluster. Shared by all callers that append.
pub struct Cluster {
    shared: Arc<Shared>,
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
        let checkpoint = applier.start();
        state.check_start(checkpoint.read)?;
        let writer_options =
            WriterOptions::new(options.node.as_str(), version, client.max_payload()).ok_or_else(
                || JoinError::Request(format!("the version {version:?} is too long")),
            )?;
        let incarnation = incarnations::random()
            .ok_or_else(|| JoinError::Request("the system has no random bits".to_owned()))?;
        runtime.block_on(drain::check_name(&client, options, incarnation))?;
        let contact = Contact::new(checkpoint.read.number());
        contact.learn_last(state.last);
        let (answers, outgoing) = mpsc::channel(ANSWERS_WAITING_MAX);
        let mut membership = Membership::default();
        membership.sync(contact.now(), &checkpoint.table);
        let writer = Writer::new(writer_options, incarnation, checkpoint.read);
        let shared = Arc::new(Shared {
            client,
            stream,
            cluster: options.cluster.clone(),
            node: options.node.clone(),
            version: version.into(),
            at_start: state.last,
            runtime: runtime.handle().clone(),
            host,
            outbox: Outbox {
                writer: Mutex::new(Some(writer)),
                contact,
                wake: Notify::new(),
            },
            receipts: Mutex::default(),
            membership: Mutex::new(membership),
            namesake: OnceLock::new(),
            answers,
            connection: counts,
            counts: Counts::default(),
            log: Mutex::new(state),
            stopped: OnceLock::new(),
        });
        let (output, messages) = mpsc::channel(MESSAGES_MAX);
        let consumer = Consumer::new(Arc::clone(&shared), checkpoint.read.next().number(), output);
        let apply_thread = ApplyThread {
            applier,
            shared: Arc::clone(&shared),
            reader: Reader::new(checkpoint),
        };
        let stopped = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("encke-apply".to_owned())
            .spawn(move || {
                if let Err(reason) = apply_thread.run(messages) {
                    stopped.stop(StopKind::Entry, reason);
                }
            })
            .map_err(|error| {
                JoinError::Request(format!("the apply thread cannot be started: {error}"))
            })?;
        let inbox = shared.client.new_inbox();
        let subscribed = runtime.block_on(async {
            let links = Links::subscribe(Arc::clone(&shared)).await?;
            let acknowledgements = shared.client.subscribe(format!("{inbox}.>")).await?;
            Ok((links, acknowledgements))
        });
        let (links, acknowledgements) = subscribed.map_err(|error: SubscribeError| {
            JoinError::Request(format!(
                "the cluster's engine accepts no subscription: {error}"
            ))
        })?;
        runtime.spawn(links.run(outgoing));
        runtime.spawn(sending::take_answers(Arc::clone(&shared), acknowledgements));
        let sender = Sender {
            shared: Arc::clone(&shared),
            inbox,
            may_end_at: Duration::ZERO,
        };
        runtime.spawn(sender.run());
        runtime.spawn(deliver(consumer, Arc::clone(&shared)));
        runtime.spawn(inquiry::hear_server(Arc::clone(&shared)));
        runtime.spawn(Inquiry::new(Arc::clone(&shared)).run());
        Ok(Arc::new(Self {
            shared,
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
        let writer = self.shared.outbox.writer.lock().take();
        refuse(writer.map(Writer::end).unwrap_or_default());
        runtime.shutdown_timeout(END_TIMEOUT);
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }

    /// Returns whether all entries that were in the log at the start are applied.
    pub fn has_caught_up(&self) -> bool {
        self.shared.outbox.contact.applied() >= self.shared.at_start
    }

    /// Returns why the node has stopped applying entries; `None` if it has not.
    pub fn stopped(&self) -> Option<&Stop> {
        self.shared.stopped.get()
    }

    /// Returns why the node must end, if there is an earlier one with its name.
    pub fn namesake(&self) -> Option<JoinError> {
        let incarnation = *self.shared.namesake.get()?;
        let node = self.shared.node.to_string();
        Some(JoinError::NameTaken { node, incarnation })
    }

    /// Returns how long this node has been cut off from a log that other nodes may still read: the
    /// time since the engine last answered or, if another node is silent, since the leader did. If
    /// all other nodes send heartbeats, the log has no leader for any of them, and clients are no
    /// better off elsewhere.
    pub fn cut_off(&self) -> Duration {
        let contact = &self.shared.outbox.contact;
        let own = self.shared.outbox.incarnation();
        let hears_all = self.shared.membership.lock().hears_all(contact.now(), own);
        match hears_all {
            true => contact.silence(),
            false => contact.silence().max(contact.leaderless()),
        }
    }

    /// Ends the incarnation with an entry, so that other nodes do not wait for this one.
    fn say_goodbye(&self) {
        let Some(incarnation) = self.shared.outbox.incarnation() else {
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
}

impl Append for Cluster {
    fn append(&self, commands: Vec<Command>, wait: Wait, done: Done) {
        let waiting = Waiting::new(wait, done);
        let contact = &self.shared.outbox.contact;
        // An append to an engine that is unreachable or has lost its majority would wait, and its
        // result would be unknown.
        let is_away = contact.silence() > SILENCE_MAX || contact.leaderless() > LEADERLESS_MAX;
        if is_away || self.shared.stopped.get().is_some() {
            return waiting.refuse(UNAVAILABLE);
        }
        // The lock is released before the callback is called.
        if let Err(Refused { token, error }) = self.shared.outbox.append(&commands, waiting) {
            token.refuse(error);
        }
    }

    fn status(&self) -> Status {
        let Shared {
            outbox,
            membership,
            counts,
            ..
        } = &*self.shared;
        let contact = &outbox.contact;
        let sequence = |number| StreamSequence::new(number).unwrap_or(StreamSequence::MAX);
        let of_writer = outbox.with(|writer| {
            let (in_flight, bytes) = (writer.in_flight(), writer.waiting_bytes());
            (writer.incarnation(), in_flight, bytes, writer.resent())
        });
        let (incarnation, in_flight, waiting_bytes, resent) = of_writer.unwrap_or_default();
        let signs = self.shared.signs();
        Status {
            node: self.shared.node.as_str().into(),
            incarnation,
            epoch: self.shared.stream.epoch.as_str().into(),
            not_ready: signs.not_ready().map(String::into_boxed_str),
            is_connected: signs.is_connected(),
            applied: sequence(signs.applied),
            last: sequence(contact.last()),
            lag: signs.lag,
            in_flight,
            waiting_bytes,
            entries: counts.applied.load(Ordering::Relaxed),
            skipped: counts.skipped.load(Ordering::Relaxed),
            resent,
            engine: self.shared.engine(),
            nodes: membership.lock().status(contact.now()),
        }
    }

    fn drain(&self, node: &str, done: DrainDone) {
        let now = self.shared.outbox.contact.now();
        let found = {
            let membership = self.shared.membership.lock();
            let names = || membership.status(now).into_iter().map(|node| node.name);
            membership
                .find(now, node)
                .ok_or_else(|| DrainError::Unknown {
                    names: names().collect(),
                })
        };
        let own = self.shared.outbox.incarnation();
        match found {
            // A request to this node needs no engine.
            Ok(node) if own == Some(node.incarnation) => {
                self.shared.host.drain();
                done(Ok(node.incarnation));
            }
            Ok(_) if self.shared.outbox.contact.silence() > SILENCE_MAX => {
                done(Err(DrainError::Unreachable));
            }
            Ok(node) => {
                let Shared {
                    client, cluster, ..
                } = &*self.shared;
                let asked = drain::drain(client.clone(), cluster.clone(), node);
                self.shared.runtime.spawn(async move { done(asked.await) });
            }
            Err(error) => done(Err(error)),
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.shared.node)
            .field("epoch", &self.shared.stream.epoch)
            .finish_non_exhaustive()
    }
}

/// Runs the consumer. Records why it can deliver no more.
async fn deliver(consumer: Consumer, shared: Arc<Shared>) {
    if let Err(error) = consumer.run().await {
        let kind = match error {
            JoinError::Trimmed { .. } => StopKind::Trimmed,
            _ => StopKind::OtherLog,
        };
        shared.stop(kind, error.to_string());
    }
}
