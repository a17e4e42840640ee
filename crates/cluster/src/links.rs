//! Links to the other nodes: messages outside the log.
//!
//! Must never decide which nodes there are: only the log does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::{Message, SubscribeError, Subscriber};
use futures_util::StreamExt;
use replication::{
    Answer, Answers, Command, DrainMessage, Heartbeat, Incarnation, NodeCounters, NodeState,
    Report, StreamSequence, Wait,
};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::outbox::refuse;
use crate::readiness::SILENCE_MAX;
use crate::settings;
use crate::shared::Shared;
use crate::waiting::{Waiting, complete};

/// Maximum number of answers that wait to be sent. Beyond it this node is missing in receipts.
pub(crate) const ANSWERS_WAITING_MAX: usize = 16_384;

/// Maximum number of answers that are sent together.
const ANSWERS_PER_MESSAGE_MAX: usize = 1024;

/// Interval of checks for heartbeats and timeouts that are due.
const TICK: Duration = Duration::from_millis(100);

/// Subscriptions of a node to the messages of the others.
pub(crate) struct Links {
    shared: Arc<Shared>,
    heartbeats: Subscriber,
    /// Answers to entries of this node.
    answers: Subscriber,
    reports: Subscriber,
    /// Requests to drain this node.
    drains: Subscriber,
}

impl Links {
    /// Subscribes to the messages of other nodes.
    ///
    /// # Errors
    ///
    /// When the client has ended.
    pub(crate) async fn subscribe(shared: Arc<Shared>) -> Result<Self, SubscribeError> {
        let Shared {
            client,
            cluster,
            node,
            ..
        } = &*shared;
        Ok(Self {
            heartbeats: client
                .subscribe(settings::heartbeats_subject(cluster))
                .await?,
            answers: client
                .subscribe(settings::answers_subject(cluster, node.as_str()))
                .await?,
            reports: client.subscribe(settings::reports_subject(cluster)).await?,
            drains: client
                .subscribe(settings::drain_subject(cluster, node.as_str()))
                .await?,
            shared,
        })
    }

    /// Sends and receives messages as long as the node runs.
    pub(crate) async fn run(mut self, mut outgoing: mpsc::Receiver<(Box<str>, Answer)>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            let shared = &self.shared;
            tokio::select! {
                Some(message) = self.heartbeats.next() => self.heartbeat(&message.payload),
                Some(message) = self.answers.next() => match Answers::decode(&message.payload) {
                    Ok(Answers { node, answers }) => {
                        answers.into_iter().for_each(|answer| shared.answer(node, answer));
                    }
                    Err(error) => tracing::debug!("a node's answer cannot be read: {error}"),
                },
                Some(message) = self.reports.next() => match Report::decode(&message.payload) {
                    Ok(report) => shared.membership.lock().report(report),
                    Err(error) => tracing::debug!("a node's report cannot be read: {error}"),
                },
                Some(message) = self.drains.next() => self.drain(&message).await,
                count = outgoing.recv_many(&mut batch, ANSWERS_PER_MESSAGE_MAX) => {
                    if count == 0 {
                        return;
                    }
                    self.send_answers(&mut batch).await;
                }
                _ = ticks.tick() => self.tick().await,
            }
        }
    }

    fn heartbeat(&self, payload: &bytes::Bytes) {
        match Heartbeat::decode(payload) {
            Ok(heartbeat) => {
                let now = self.shared.outbox.contact.now();
                self.shared
                    .outbox
                    .contact
                    .learn_last(heartbeat.applied.number());
                self.shared.membership.lock().heartbeat(now, heartbeat);
            }
            Err(error) => tracing::debug!("a node's heartbeat cannot be read: {error}"),
        }
    }

    async fn tick(&self) {
        let contact = &self.shared.outbox.contact;
        let now = contact.now();
        let expired = self.shared.receipts.lock().expire(now);
        complete(expired);
        let own = self.shared.outbox.incarnation();
        let (gone, is_due) = {
            let mut membership = self.shared.membership.lock();
            if let Some(namesake) = own.and_then(|own| membership.namesake(own)) {
                // One is enough, so later ones are ignored.
                let _ = self.shared.namesake.set(namesake);
            }
            if contact.silence() > SILENCE_MAX {
                membership.reset(now);
            }
            (
                membership.poll_gone(now, own),
                membership.poll_heartbeat(now),
            )
        };
        for incarnation in gone {
            tracing::warn!("node incarnation {incarnation} is silent; declaring it gone");
            let waiting = Waiting::new(Wait::Logged, Box::new(drop));
            let commands = [Command::NodeGone { incarnation }];
            refuse(Vec::from_iter(
                self.shared.outbox.append(&commands, waiting).err(),
            ));
        }
        if let Some(incarnation) = own.filter(|_| is_due) {
            self.send_signs_of_life(incarnation).await;
        }
    }

    /// Sends a heartbeat and a report.
    async fn send_signs_of_life(&self, incarnation: Incarnation) {
        // They are useless if they are sent later.
        if !self.shared.is_connected() {
            return;
        }
        let Shared {
            client,
            cluster,
            outbox,
            ..
        } = &*self.shared;
        let counters = self.counters();
        let heartbeat = Heartbeat {
            incarnation,
            name: self.shared.node.as_str().into(),
            version: self.shared.version.clone(),
            applied: StreamSequence::new(outbox.contact.applied()).unwrap_or_default(),
            sessions: counters.sessions,
        };
        if let Ok(bytes) = heartbeat.encode() {
            let subject = settings::heartbeats_subject(cluster);
            let _ = client.publish(subject, bytes).await;
        }
        let is_ready = || self.shared.signs().not_ready().is_none();
        let report = Report {
            incarnation,
            state: match self.shared.host.is_draining() {
                true => NodeState::Draining,
                false if is_ready() => NodeState::Ready,
                false => NodeState::NotReady,
            },
            counters,
        };
        let subject = settings::reports_subject(cluster);
        let _ = client.publish(subject, report.encode()).await;
    }

    fn counters(&self) -> NodeCounters {
        let outbox = &self.shared.outbox;
        let waiting_bytes = outbox.with(|writer| writer.waiting_bytes());
        NodeCounters {
            lag: outbox.contact.lag(),
            waiting_bytes: waiting_bytes.unwrap_or(0) as u64,
            disconnects: self.shared.connection.disconnected.load(Ordering::Relaxed),
            ..self.shared.host.counters()
        }
    }

    /// Handles a request to drain. Answers it first, as the connection ends with the node.
    async fn drain(&self, message: &Message) {
        let Ok(incarnation) = DrainMessage::Request.decode(&message.payload) else {
            return tracing::debug!("a request to drain cannot be read");
        };
        let Some(own) = self.shared.outbox.incarnation() else {
            return;
        };
        if let Some(reply) = &message.reply {
            let answer = DrainMessage::Answer.encode(own);
            let _ = self.shared.client.publish(reply.clone(), answer).await;
        }
        if own == incarnation {
            self.shared.host.drain();
        }
    }

    /// Sends answers, one message for each receiving node.
    async fn send_answers(&self, batch: &mut Vec<(Box<str>, Answer)>) {
        let own = self.shared.outbox.incarnation();
        batch.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut left = batch.drain(..).peekable();
        while let Some((node, first)) = left.next() {
            let mut answers = vec![first];
            while let Some((_, next)) = left.next_if(|(next, _)| *next == node) {
                answers.push(next);
            }
            let Some(own) = own.filter(|_| self.shared.is_connected()) else {
                continue;
            };
            let subject = settings::answers_subject(&self.shared.cluster, &node);
            self.send_parts(own, &subject, answers).await;
        }
    }

    /// Sends answers, split into messages within the size limit. An answer that is too large alone
    /// is not sent, so the receipt names this node as missing.
    async fn send_parts(&self, node: Incarnation, subject: &str, answers: Vec<Answer>) {
        let mut parts = vec![answers];
        while let Some(mut answers) = parts.pop() {
            let message = Answers { node, answers };
            let encoded = message.encode();
            match encoded
                .ok()
                .filter(|it| it.len() <= self.shared.client.max_payload())
            {
                Some(bytes) => {
                    let _ = self.shared.client.publish(subject.to_owned(), bytes).await;
                }
                None if message.answers.len() > 1 => {
                    answers = message.answers;
                    parts.push(answers.split_off(answers.len() / 2));
                    parts.push(answers);
                }
                None => {}
            }
        }
    }
}
