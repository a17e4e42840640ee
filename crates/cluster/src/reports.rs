//! Reports of nodes for the overview of the cluster, and requests to drain a node. Both are
//! messages outside the log.
//!
//! Must never decide which nodes there are: only the log does.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_nats::connection::State;
use async_nats::{Client, Message, SubscribeError, Subscriber};
use futures_util::StreamExt;
use replication::{DrainMessage, HEARTBEAT_EVERY, Incarnation, NodeCounters, NodeState, Report};
use tokio::time::{MissedTickBehavior, interval};

use crate::connection::ConnectionCounts;
use crate::host::Host;
use crate::options::Name;
use crate::peers::Peers;
use crate::sending::Outbox;
use crate::settings;

/// Task that sends the reports of this node and receives those of the others.
pub(crate) struct Reports {
    pub(crate) client: Client,
    pub(crate) cluster: Name,
    pub(crate) node: Box<str>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) connection: Arc<ConnectionCounts>,
    /// Returns whether this node is ready with regard to the log.
    pub(crate) is_ready: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Reports {
    /// Subscribes to reports and to requests to drain this node.
    ///
    /// # Errors
    ///
    /// When the client has ended.
    pub(crate) async fn subscribe(&self) -> Result<(Subscriber, Subscriber), SubscribeError> {
        let reports = settings::reports_subject(&self.cluster);
        let drains = settings::drain_subject(&self.cluster, &self.node);
        let reports = self.client.subscribe(reports).await?;
        Ok((reports, self.client.subscribe(drains).await?))
    }

    /// Sends and receives messages as long as the node runs.
    pub(crate) async fn run(self, mut reports: Subscriber, mut drains: Subscriber) {
        let mut ticks = interval(HEARTBEAT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(message) = reports.next() => match Report::decode(&message.payload) {
                    Ok(report) => self.peers.membership.lock().report(report),
                    Err(error) => tracing::debug!("a node's report cannot be read: {error}"),
                },
                Some(message) = drains.next() => self.drain(&message).await,
                _ = ticks.tick() => self.send().await,
                else => return,
            }
        }
    }

    fn own(&self) -> Option<Incarnation> {
        self.outbox.with(|writer| writer.incarnation()).flatten()
    }

    async fn send(&self) {
        let is_connected = self.client.connection_state() == State::Connected;
        let Some(incarnation) = self.own().filter(|_| is_connected) else {
            return;
        };
        let state = match (self.host.is_draining(), (self.is_ready)()) {
            (true, _) => NodeState::Draining,
            (false, true) => NodeState::Ready,
            (false, false) => NodeState::NotReady,
        };
        let waiting = self.outbox.with(|writer| writer.waiting_bytes());
        let report = Report {
            incarnation,
            state,
            counters: NodeCounters {
                lag: self.outbox.contact.lag(),
                waiting_bytes: waiting.unwrap_or(0) as u64,
                disconnects: self.connection.disconnected.load(Ordering::Relaxed),
                ..self.host.counters()
            },
        };
        let subject = settings::reports_subject(&self.cluster);
        // A report is useless if it is sent later.
        let _ = self.client.publish(subject, report.encode()).await;
    }

    /// Handles a request to drain. Answers it first, as the connection ends with the node.
    async fn drain(&self, message: &Message) {
        let Ok(incarnation) = DrainMessage::Request.decode(&message.payload) else {
            return tracing::debug!("a request to drain cannot be read");
        };
        let Some(own) = self.own() else {
            return;
        };
        if let Some(reply) = &message.reply {
            let answer = DrainMessage::Answer.encode(own);
            let _ = self.client.publish(reply.clone(), answer).await;
        }
        if own == incarnation {
            self.host.drain();
        }
    }
}
