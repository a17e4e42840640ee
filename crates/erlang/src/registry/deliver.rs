//! Delivery of events to logged-in processes.

use ::router::{Mailboxes, Parcel};
use reactor::SlotKey;
use server::SessionReport;

use super::observed::{SessionEnd, TRANSPORT};
use super::parcel_in_flight::ParcelInFlight;
use super::{ProcessRegistry, notices};
use crate::connections::{ConnectionId, Connections, DeliveryOutcome};
use crate::payload;

impl<M: Mailboxes> ProcessRegistry<M> {
    /// Writes a parcel's events to those recipients that are still logged in.
    pub(crate) fn deliver(
        &mut self,
        connections: &mut Connections,
        parcel: Parcel,
    ) -> ParcelInFlight {
        let mut written: Vec<(ConnectionId, u64)> = Vec::new();
        let (mut queued, mut shed) = (0, 0);
        for delivery in &parcel.deliveries {
            let event = &parcel.events[delivery.event as usize];
            let message = payload::router_message(&event.payload);
            for &slot in delivery.recipients.as_slice() {
                let Some(session) = self.sessions.get(slot) else {
                    shed += 1;
                    continue;
                };
                let process = session.process;
                if session.lost > 0 {
                    // The notice must precede the next event; if they do not both fit, the event is
                    // lost too.
                    let notice = notices::gap(session.lost);
                    let is_sent = connections
                        .takes(process.connection, notice.len() + message.len())
                        && connections.deliver(process.connection, process.number(), &notice)
                            != DeliveryOutcome::Shed;
                    if !is_sent {
                        session.lost = session.lost.saturating_add(1);
                        shed += 1;
                        continue;
                    }
                    session.lost = 0;
                }
                match connections.deliver(process.connection, process.number(), &message) {
                    DeliveryOutcome::Written => match written.last_mut() {
                        Some((connection, count)) if *connection == process.connection => {
                            *count += 1
                        }
                        _ => written.push((process.connection, 1)),
                    },
                    DeliveryOutcome::Queued => queued += 1,
                    DeliveryOutcome::Shed => {
                        shed += 1;
                        self.note_loss(slot, 1);
                    }
                }
            }
        }
        ParcelInFlight {
            parcel,
            written,
            queued,
            shed,
        }
    }

    /// Reports on sessions.
    pub(crate) fn report(
        &mut self,
        connections: &Connections,
        recipients: &[SlotKey],
    ) -> Vec<SessionReport> {
        let graph = self.router.graph();
        let now = self.now;
        let (worker, sessions) = (self.worker, &mut self.sessions);
        let reports = recipients.iter().filter_map(|&slot| {
            let session = sessions.get(slot)?;
            let connection = connections.get(session.process.connection);
            Some(SessionReport {
                session: ::router::SessionRef::new(worker, slot),
                ids: session
                    .keys()
                    .iter()
                    .filter_map(|&key| graph.name(key))
                    .collect(),
                transport: TRANSPORT,
                age: now.since(session.since()),
                peer: connection.and_then(|connection| connection.address),
                backlog_frames: 0,
                backlog_bytes: 0,
                bytes_acknowledged: None,
                bytes_unacknowledged: None,
                is_behind: false,
                last_gap: None,
            })
        });
        reports.collect()
    }

    /// Logs out sessions of disconnected nodes among `slots` slots. Returns the slot to continue
    /// at.
    pub(crate) fn reap_sessions(
        &mut self,
        connections: &Connections,
        from: u32,
        slots: u32,
    ) -> Option<u32> {
        let end = self.sessions.slots().min(from + slots);
        for index in from..end {
            let Some(slot) = self.sessions.at(index) else {
                continue;
            };
            let is_gone = self
                .sessions
                .get(slot)
                .is_some_and(|session| connections.get(session.process.connection).is_none());
            if is_gone {
                self.end_session(slot, SessionEnd::Node);
            }
        }
        (end < self.sessions.slots()).then_some(end)
    }
}
