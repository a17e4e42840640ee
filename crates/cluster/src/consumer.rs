//! Consumer: the messages of the log, in order and without a gap, whatever the engine's servers do.
//!
//! Owns when delivery counts as broken. The engine gives each consumer to one server, and says
//! nothing when that server dies. So its heartbeats are watched, and a consumer that is silent for
//! `SILENCE_MAX` or skips a message is replaced by one that begins with the last message. That must
//! be the same again: the engine may have lost it, and have stored another one in its place.

mod delivery;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, push};
use async_nats::{Client, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout_at};

use crate::contact::Contact;
use crate::doubt::Doubt;
use crate::stream::LogStream;
use delivery::Delivery;

/// Interval of the consumer's heartbeats when it has nothing to deliver. The engine takes no
/// shorter one than 100 ms.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Silence after which a consumer counts as dead: four heartbeats, more than a busy server needs.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Time for which a consumer may have nothing to deliver although the log goes on: the server that
/// has it gets no entries any more.
const STALLED_MAX: Duration = Duration::from_secs(5);

/// Time after which the engine forgets a consumer that nobody listens to.
const INACTIVE: Duration = Duration::from_secs(10);

/// Pause before another consumer is asked for when the engine refused one, as while it elects a
/// leader.
const PAUSE: Duration = Duration::from_millis(250);

/// Pause before the last message is looked at again that was another one.
const REWRITTEN_PAUSE: Duration = Duration::from_secs(1);

/// Messages that may wait for the apply thread. Beyond it the engine is asked to wait.
pub(crate) const MESSAGES_MAX: usize = 1024;

/// KiB of messages that may wait for the apply thread, 32 MiB: as much as the engine sends before
/// it waits for an answer.
const KIBIBYTES_MAX: u32 = 32 << 10;

/// Message of the log, on its way to the apply thread.
#[derive(Debug)]
pub(crate) struct Message {
    /// Its place in the stream.
    pub(crate) sequence: u64,
    /// When the log stored it, in seconds since 1970.
    pub(crate) seconds: u64,
    pub(crate) payload: Bytes,
    /// Room among the messages that may wait, given back when it is applied.
    _room: OwnedSemaphorePermit,
}

/// Reason why there are no further messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The apply thread takes no more.
    Closed,
    /// The log does not have the next message any more.
    Trimmed {
        /// The next message.
        next: u64,
        /// The oldest one there is.
        first: u64,
    },
    /// The log has another message in the place of the last one.
    Rewritten {
        /// The place.
        sequence: u64,
    },
}

/// Reason why a consumer is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Silent,
    Stalled,
    Skipped,
    Unsubscribed,
    Rewritten,
}

/// Numbers of what happened to the consumer.
#[derive(Debug, Default)]
pub(crate) struct ConsumerCounts {
    /// Consumers that were made, the first one included.
    pub(crate) made: AtomicU64,
    /// Consumers that were replaced because they were silent, or lacked what the log has.
    pub(crate) silent: AtomicU64,
    /// Consumers that were replaced because a message was missing.
    pub(crate) skipped: AtomicU64,
}

/// Reader of the log. Runs as a task of its own.
pub(crate) struct Consumer {
    client: Client,
    stream: LogStream,
    /// Sequence of the next message.
    next: u64,
    /// The message before it, if this run has read it.
    last: Option<Bytes>,
    /// Whether the log has another one in its place.
    rewritten: Doubt,
    output: mpsc::Sender<Message>,
    room: Arc<Semaphore>,
    counts: Arc<ConsumerCounts>,
    contact: Arc<Contact>,
}

impl Consumer {
    /// Makes a reader whose first message has the sequence `next`.
    pub(crate) fn new(
        client: Client,
        stream: LogStream,
        next: u64,
        output: mpsc::Sender<Message>,
        counts: Arc<ConsumerCounts>,
        contact: Arc<Contact>,
    ) -> Self {
        Self {
            client,
            stream,
            next,
            last: None,
            rewritten: Doubt::default(),
            output,
            room: Arc::new(Semaphore::new(KIBIBYTES_MAX as usize)),
            counts,
            contact,
        }
    }

    /// Delivers messages until there can be no further ones.
    pub(crate) async fn run(mut self) -> End {
        loop {
            let Ok(messages) = self.create().await else {
                if self.output.is_closed() {
                    return End::Closed;
                }
                self.contact.note_consumer(false);
                self.check_server().await;
                sleep(PAUSE).await;
                continue;
            };
            self.contact.note_consumer(true);
            self.counts.made.fetch_add(1, Ordering::Relaxed);
            let counter = match self.deliver(messages).await {
                Ok(end) => return end,
                Err(Broken::Silent | Broken::Stalled) => &self.counts.silent,
                Err(Broken::Skipped | Broken::Unsubscribed | Broken::Rewritten) => {
                    &self.counts.skipped
                }
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes a consumer that begins with the last message if there is one to compare, and else with
    /// the next.
    async fn create(&self) -> Result<Subscriber, async_nats::Error> {
        let inbox = self.client.new_inbox();
        let messages = self.client.subscribe(inbox.clone()).await?;
        let config = push::Config {
            deliver_subject: inbox,
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: self.next - u64::from(self.last.is_some()),
            },
            ack_policy: AckPolicy::None,
            max_deliver: 1,
            flow_control: true,
            idle_heartbeat: HEARTBEAT,
            inactive_threshold: INACTIVE,
            num_replicas: 1,
            memory_storage: true,
            ..push::Config::default()
        };
        let context = &self.stream.context;
        let name = &self.stream.name;
        context.create_consumer_on_stream(config, name).await?;
        Ok(messages)
    }

    /// Leaves a server that does not answer, although the connection to it stands: a stopped one.
    async fn check_server(&self) {
        if !self.stream.is_server_there().await {
            // The connection has ended for good only when the node has.
            let _ = self.client.force_reconnect().await;
        }
    }

    /// Hands on messages as long as they come in order.
    async fn deliver(&mut self, mut messages: Subscriber) -> Result<End, Broken> {
        let mut consumed = 0;
        let mut heard = Instant::now();
        let mut idle_since = None;
        loop {
            let message = match timeout_at(heard + SILENCE_MAX, messages.next()).await {
                Ok(Some(message)) => message,
                Ok(None) => return Err(Broken::Unsubscribed),
                Err(_) => return Err(Broken::Silent),
            };
            self.contact.hear();
            if message.status.is_some() {
                self.answer(&message, consumed).await?;
                heard = Instant::now();
                let (_, last) = self.contact.places();
                if last < self.next {
                    idle_since = None;
                } else if idle_since.get_or_insert(heard).elapsed() > STALLED_MAX {
                    return Err(Broken::Stalled);
                }
                continue;
            }
            idle_since = None;
            let delivery = message.reply.as_deref().and_then(Delivery::parse);
            let Some(delivery) = delivery else {
                return Err(Broken::Skipped);
            };
            if delivery.consumer_sequence != consumed + 1 {
                return Err(Broken::Skipped);
            }
            consumed += 1;
            match delivery.stream_sequence {
                sequence if sequence + 1 == self.next && self.last.is_some() => {
                    if let Some(end) = self.compare(&message.payload).await? {
                        return Ok(end);
                    }
                }
                // An election may deliver a message again that was delivered before.
                sequence if sequence < self.next => {}
                sequence if sequence > self.next && consumed == 1 => {
                    let (next, first) = (self.next, sequence);
                    return Ok(End::Trimmed { next, first });
                }
                sequence if sequence > self.next => return Err(Broken::Skipped),
                sequence => {
                    self.contact.learn_last(sequence + delivery.pending);
                    let seconds = delivery.seconds;
                    self.last = Some(message.payload.clone());
                    let handed_on = self.hand_on(sequence, seconds, message.payload).await;
                    if handed_on.is_err() {
                        return Ok(End::Closed);
                    }
                    self.next += 1;
                }
            }
            // The apply thread may have let this task wait; the engine was not silent meanwhile.
            heard = Instant::now();
        }
    }

    /// Compares the last message with what the log has in its place now. An engine that has lost
    /// its end, and has stored other entries since, is not noticed by the sequences.
    async fn compare(&mut self, payload: &Bytes) -> Result<Option<End>, Broken> {
        let is_other = self.last.as_ref().is_some_and(|last| last != payload);
        if self.rewritten.note(self.contact.now(), is_other) {
            let sequence = self.next - 1;
            return Ok(Some(End::Rewritten { sequence }));
        }
        if !is_other {
            return Ok(None);
        }
        tracing::warn!(
            "entry {} of the cluster's log is another one than this node has applied; reading it \
             again",
            self.next - 1
        );
        sleep(REWRITTEN_PAUSE).await;
        Err(Broken::Rewritten)
    }

    /// Answers a message of the engine about the delivery itself.
    async fn answer(&self, message: &async_nats::Message, consumed: u64) -> Result<(), Broken> {
        if message.status != Some(StatusCode::IDLE_HEARTBEAT) {
            // The consumer or its stream is gone.
            return Err(Broken::Unsubscribed);
        }
        let header = |name: &str| message.headers.as_ref().and_then(|it| it.get(name));
        let last = header("Nats-Last-Consumer").and_then(|it| it.as_str().parse().ok());
        if last.is_some_and(|last: u64| last > consumed) {
            return Err(Broken::Skipped);
        }
        let stalled = header("Nats-Consumer-Stalled").map(|it| it.as_str().to_owned());
        let request = message.reply.as_ref().map(ToString::to_string);
        // What was delivered before it has room now: the engine may go on.
        if let Some(subject) = request.or(stalled)
            && self.client.publish(subject, Bytes::new()).await.is_err()
        {
            return Err(Broken::Unsubscribed);
        }
        Ok(())
    }

    /// Hands a message on, when there is room for it.
    async fn hand_on(&self, sequence: u64, seconds: u64, payload: Bytes) -> Result<(), ()> {
        let kibibytes = u32::try_from(payload.len().div_ceil(1024)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(kibibytes.min(KIBIBYTES_MAX));
        let message = Message {
            sequence,
            seconds,
            payload,
            _room: room.await.map_err(drop)?,
        };
        self.output.send(message).await.map_err(drop)
    }
}
