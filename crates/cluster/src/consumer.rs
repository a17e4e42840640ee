//! The consumer: delivers the messages of the log in order and without gaps, despite failures of
//! the engine's servers.
//!
//! Owns the detection of broken delivery. The engine assigns each consumer to one server and does
//! not report when that server dies. So the heartbeats are watched, and a consumer that is silent
//! for `SILENCE_MAX` or skips a message is replaced by one that begins with the last message. That
//! message must be the same again: the engine may have lost it and stored another one in its place.

mod delivery;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, push};
use async_nats::{StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout_at};

use crate::doubt::Doubt;
use crate::error::JoinError;
use crate::shared::Shared;
use crate::stream::SILENCE_MAX;
use delivery::Delivery;

/// Interval of the consumer's heartbeats when it has nothing to deliver. The minimum of the engine
/// is 100 ms.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Maximum time that a consumer may deliver nothing although the log grows. Then its server no
/// longer gets entries.
const STALLED_MAX: Duration = Duration::from_secs(5);

/// Time after which the engine deletes a consumer without a subscriber.
const INACTIVE: Duration = Duration::from_secs(10);

/// Pause before another consumer is requested after the engine has refused one, for example during
/// an election.
const PAUSE: Duration = Duration::from_millis(250);

/// Pause before the last message is read again after it differed.
const REWRITTEN_PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of messages that wait for the apply thread. Beyond it flow control makes the
/// engine wait.
pub(crate) const MESSAGES_MAX: usize = 1024;

/// Maximum size of the messages that wait for the apply thread, in KiB: 32 MiB, as much as the
/// engine sends before it waits for an answer.
const KIBIBYTES_MAX: u32 = 32 << 10;

/// Message of the log that waits for the apply thread.
#[derive(Debug)]
pub(crate) struct Message {
    /// Sequence in the stream.
    pub(crate) sequence: u64,
    /// Time when the log stored it, in seconds since 1970.
    pub(crate) seconds: u64,
    pub(crate) payload: Bytes,
    /// Permit for its size, released when the message is applied.
    _room: OwnedSemaphorePermit,
}

/// How a consumer ends: because the apply thread has ended, or with an error.
type End = Result<(), JoinError>;

/// Reason why a consumer is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// It was silent, or delivered nothing although the log grows.
    Silent,
    /// A message is missing or differs, or the consumer is gone.
    Skipped,
}

/// Reader of the log. Runs as a separate task.
pub(crate) struct Consumer {
    shared: Arc<Shared>,
    /// Sequence of the next message.
    next: u64,
    /// Previous message, if this run has read it.
    last: Option<Bytes>,
    /// Doubt whether the log still has that message.
    rewritten: Doubt,
    output: mpsc::Sender<Message>,
    room: Arc<Semaphore>,
}

impl Consumer {
    /// Creates a reader whose first message has the sequence `next`.
    pub(crate) fn new(shared: Arc<Shared>, next: u64, output: mpsc::Sender<Message>) -> Self {
        Self {
            shared,
            next,
            last: None,
            rewritten: Doubt::default(),
            output,
            room: Arc::new(Semaphore::new(KIBIBYTES_MAX as usize)),
        }
    }

    /// Delivers messages until the apply thread has ended.
    ///
    /// # Errors
    ///
    /// When the log no longer has the next message, or has another one in place of the last.
    pub(crate) async fn run(mut self) -> End {
        loop {
            let Ok(messages) = self.create().await else {
                if self.output.is_closed() {
                    return Ok(());
                }
                self.shared.outbox.contact.record_consumer(false);
                self.check_server().await;
                sleep(PAUSE).await;
                continue;
            };
            self.shared.outbox.contact.record_consumer(true);
            self.shared.counts.consumers.fetch_add(1, Ordering::Relaxed);
            let counter = match self.deliver(messages).await {
                Ok(end) => return end,
                Err(Broken::Silent) => &self.shared.counts.consumers_silent,
                Err(Broken::Skipped) => &self.shared.counts.consumers_skipped,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Creates a consumer that begins with the last message if there is one to compare, otherwise
    /// with the next.
    async fn create(&self) -> Result<Subscriber, async_nats::Error> {
        let inbox = self.shared.client.new_inbox();
        let messages = self.shared.client.subscribe(inbox.clone()).await?;
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
        let context = &self.shared.stream.context;
        let name = &self.shared.stream.name;
        context.create_consumer_on_stream(config, name).await?;
        Ok(messages)
    }

    /// Reconnects if the server does not answer although the connection is open, as a stopped one.
    async fn check_server(&self) {
        if !self.shared.stream.is_server_there().await {
            // This only fails if the node has ended.
            let _ = self.shared.client.force_reconnect().await;
        }
    }

    /// Passes messages on as long as they come in order.
    async fn deliver(&mut self, mut messages: Subscriber) -> Result<End, Broken> {
        let mut consumed = 0;
        let mut heard = Instant::now();
        let mut idle_since = None;
        loop {
            let message = match timeout_at(heard + SILENCE_MAX, messages.next()).await {
                Ok(Some(message)) => message,
                Ok(None) => return Err(Broken::Skipped),
                Err(_) => return Err(Broken::Silent),
            };
            self.shared.outbox.contact.hear();
            if message.status.is_some() {
                self.answer(&message, consumed).await?;
                heard = Instant::now();
                if self.shared.outbox.contact.last() < self.next {
                    idle_since = None;
                } else if idle_since.get_or_insert(heard).elapsed() > STALLED_MAX {
                    return Err(Broken::Silent);
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
                    if let Some(error) = self.compare(&message.payload).await? {
                        return Ok(Err(error));
                    }
                }
                // After an election a message may be delivered again.
                sequence if sequence < self.next => {}
                sequence if sequence > self.next && consumed == 1 => {
                    let (next, first) = (self.next, sequence);
                    return Ok(Err(JoinError::Trimmed { next, first }));
                }
                sequence if sequence > self.next => return Err(Broken::Skipped),
                sequence => {
                    self.shared
                        .outbox
                        .contact
                        .learn_last(sequence + delivery.pending);
                    let seconds = delivery.seconds;
                    self.last = Some(message.payload.clone());
                    let handed_on = self.hand_on(sequence, seconds, message.payload).await;
                    if handed_on.is_err() {
                        return Ok(Ok(()));
                    }
                    self.next += 1;
                }
            }
            // The apply thread may have blocked this task, during which the engine was not silent.
            heard = Instant::now();
        }
    }

    /// Compares the last message with the one that the log has in its place now. The sequences do
    /// not show if an engine has lost the end of the log and stored other entries since.
    async fn compare(&mut self, payload: &Bytes) -> Result<Option<JoinError>, Broken> {
        let is_other = self.last.as_ref().is_some_and(|last| last != payload);
        if self
            .rewritten
            .note(self.shared.outbox.contact.now(), is_other)
        {
            let sequence = self.next - 1;
            return Ok(Some(JoinError::Rewritten { sequence }));
        }
        if !is_other {
            return Ok(None);
        }
        tracing::warn!(
            "entry {} of the cluster's log differs from the one that this node has applied; \
             reading it again",
            self.next - 1
        );
        sleep(REWRITTEN_PAUSE).await;
        Err(Broken::Skipped)
    }

    /// Answers a status message of the engine.
    async fn answer(&self, message: &async_nats::Message, consumed: u64) -> Result<(), Broken> {
        if message.status != Some(StatusCode::IDLE_HEARTBEAT) {
            // The consumer or its stream is gone.
            return Err(Broken::Skipped);
        }
        let header = |name: &str| message.headers.as_ref().and_then(|it| it.get(name));
        let last = header("Nats-Last-Consumer").and_then(|it| it.as_str().parse().ok());
        if last.is_some_and(|last: u64| last > consumed) {
            return Err(Broken::Skipped);
        }
        let stalled = header("Nats-Consumer-Stalled").map(|it| it.as_str().to_owned());
        let request = message.reply.as_ref().map(ToString::to_string);
        // All messages before it have been passed on, so the engine may continue.
        if let Some(subject) = request.or(stalled)
            && self
                .shared
                .client
                .publish(subject, Bytes::new())
                .await
                .is_err()
        {
            return Err(Broken::Skipped);
        }
        Ok(())
    }

    /// Passes a message on, when there is room for it.
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
