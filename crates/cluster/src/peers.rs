//! The other nodes of the cluster, and the messages to them outside the log.
//!
//! Owns receipts and membership. No entry depends on a message: if an answer is lost, the receipt
//! names the node as missing.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Subscriber};
use futures_util::StreamExt;
use parking_lot::Mutex;
use replication::{
    Answer, Answers, Applied, Command, Finished, Heartbeat, Incarnation, Membership, Receipt,
    Receipts, StreamSequence, Wait,
};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::host::Host;
use crate::options::Name;
use crate::readiness::SILENCE_MAX;
use crate::sending::{Outbox, refuse};
use crate::settings;
use crate::waiting::Waiting;

/// Maximum number of answers that wait to be sent. Beyond it this node is missing in receipts.
pub(crate) const ANSWERS_WAITING_MAX: usize = 16_384;

/// Maximum number of answers that are sent together.
const ANSWERS_PER_MESSAGE_MAX: usize = 1024;

/// Interval of checks for heartbeats and timeouts that are due.
const TICK: Duration = Duration::from_millis(100);

/// State about the other nodes. Shared by the threads and tasks of a node.
pub(crate) struct Peers {
    pub(crate) receipts: Mutex<Receipts<Vec<Finished<Waiting>>>>,
    pub(crate) membership: Mutex<Membership>,
    /// Incarnation of an earlier node with the same name, if there is one. Then this node must end.
    pub(crate) namesake: OnceLock<Incarnation>,
    /// Answers that wait to be sent to the writers of the entries.
    pub(crate) answers: mpsc::Sender<(Box<str>, Answer)>,
}

/// Connection of a node to the others.
pub(crate) struct Links {
    pub(crate) client: Client,
    pub(crate) cluster: Name,
    pub(crate) node: Box<str>,
    pub(crate) version: Box<str>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) host: Arc<dyn Host>,
}

impl Peers {
    /// Records the answer of a node to an entry of this one.
    pub(crate) fn answer(&self, node: Incarnation, answer: Answer) {
        let receipt = self.receipts.lock().answer(node, answer);
        complete(receipt);
    }
}

/// Answers the appends of receipts that are complete or have expired. Call it without holding a
/// lock.
pub(crate) fn complete(receipts: impl IntoIterator<Item = Receipt<Vec<Finished<Waiting>>>>) {
    for receipt in receipts {
        for finished in receipt.token {
            let Finished {
                token,
                first,
                commands,
            } = finished;
            let own = receipt.results.iter().skip(first.index().into());
            token.finish(Applied {
                first,
                results: own.take(commands).cloned().collect(),
                nodes: receipt.nodes,
                missing: receipt.missing.clone(),
            });
        }
    }
}

impl Links {
    /// Subscribes to heartbeats and answers of other nodes.
    ///
    /// # Errors
    ///
    /// When the client has ended.
    pub(crate) async fn subscribe(
        &self,
    ) -> Result<(Subscriber, Subscriber), async_nats::SubscribeError> {
        let heartbeats = settings::heartbeats_subject(&self.cluster);
        let answers = settings::answers_subject(&self.cluster, &self.node);
        let heartbeats = self.client.subscribe(heartbeats).await?;
        Ok((heartbeats, self.client.subscribe(answers).await?))
    }

    /// Sends and receives heartbeats and answers, as long as the node runs.
    pub(crate) async fn run(
        self,
        mut heartbeats: Subscriber,
        mut answers: Subscriber,
        mut outgoing: mpsc::Receiver<(Box<str>, Answer)>,
    ) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                Some(message) = heartbeats.next() => self.heartbeat(&message.payload),
                Some(message) = answers.next() => match Answers::decode(&message.payload) {
                    Ok(Answers { node, answers }) => {
                        answers.into_iter().for_each(|answer| self.peers.answer(node, answer));
                    }
                    Err(error) => tracing::debug!("a node's answer cannot be read: {error}"),
                },
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
                let now = self.outbox.contact.now();
                self.outbox.contact.learn_last(heartbeat.applied.number());
                self.peers.membership.lock().heartbeat(now, heartbeat);
            }
            Err(error) => tracing::debug!("a node's heartbeat cannot be read: {error}"),
        }
    }

    async fn tick(&self) {
        let contact = &self.outbox.contact;
        let now = contact.now();
        let expired = self.peers.receipts.lock().expire(now);
        complete(expired);
        let own = self.outbox.with(|writer| writer.incarnation()).flatten();
        let (gone, is_due) = {
            let mut membership = self.peers.membership.lock();
            if let Some(namesake) = own.and_then(|own| membership.namesake(own)) {
                // One is enough, so later ones are ignored.
                let _ = self.peers.namesake.set(namesake);
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
            refuse(Vec::from_iter(self.outbox.append(&commands, waiting).err()));
        }
        if let Some(incarnation) = own.filter(|_| is_due) {
            self.send_heartbeat(incarnation).await;
        }
    }

    async fn send_heartbeat(&self, incarnation: Incarnation) {
        // A heartbeat is useless if it is sent later.
        if self.client.connection_state() != State::Connected {
            return;
        }
        let (applied, _) = self.outbox.contact.places();
        let heartbeat = Heartbeat {
            incarnation,
            name: self.node.clone(),
            version: self.version.clone(),
            applied: StreamSequence::new(applied).unwrap_or_default(),
            sessions: self.host.counters().sessions,
        };
        if let Ok(bytes) = heartbeat.encode() {
            let subject = settings::heartbeats_subject(&self.cluster);
            let _ = self.client.publish(subject, bytes).await;
        }
    }

    /// Sends answers, one message for each receiving node.
    async fn send_answers(&self, batch: &mut Vec<(Box<str>, Answer)>) {
        let own = self.outbox.with(|writer| writer.incarnation()).flatten();
        batch.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut left = batch.drain(..).peekable();
        while let Some((node, first)) = left.next() {
            let mut answers = vec![first];
            while let Some((_, next)) = left.next_if(|(next, _)| *next == node) {
                answers.push(next);
            }
            let Some(own) = own.filter(|_| self.client.connection_state() == State::Connected)
            else {
                continue;
            };
            let subject = settings::answers_subject(&self.cluster, &node);
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
                .filter(|it| it.len() <= self.client.max_payload())
            {
                Some(bytes) => {
                    let _ = self.client.publish(subject.to_owned(), bytes).await;
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
