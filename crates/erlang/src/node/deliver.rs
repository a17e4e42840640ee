//! Delivery of events to logged-in processes.

use reactor::SlotKey;
use router::{Counts, Mailboxes, Parcel, SessionRef};
use server::SessionReport;

use super::observed::TRANSPORT;
use super::{Node, ParcelInFlight, notices};
use crate::connections::{ConnectionId, DeliveryOutcome};
use crate::payload;

impl<M: Mailboxes> Node<M> {
    /// Writes a parcel's events to those recipients that are still logged in.
    pub(crate) fn deliver(&mut self, parcel: Parcel) {
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
                    let bytes = notice.len() + message.len();
                    let is_sent = self.connections.takes(process.connection, bytes)
                        && self.connections.deliver(process, &notice) != DeliveryOutcome::Shed;
                    if !is_sent {
                        session.lost = session.lost.saturating_add(1);
                        shed += 1;
                        continue;
                    }
                    session.lost = 0;
                }
                match self.connections.deliver(process, &message) {
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
        self.parcels_in_flight.push(ParcelInFlight {
            parcel,
            written,
            queued,
            shed,
        });
    }

    /// Reports on sessions.
    pub(crate) fn report(&mut self, recipients: &[SlotKey]) -> Vec<SessionReport> {
        let graph = self.router.graph();
        let reports = recipients.iter().filter_map(|&slot| {
            let session = self.sessions.get(slot)?;
            let connection = self.connections.get(session.process.connection);
            let keys = session.keys().iter();
            Some(SessionReport {
                session: SessionRef::new(self.config.worker, slot),
                ids: keys.filter_map(|&key| graph.name(key)).collect(),
                transport: TRANSPORT,
                age: self.now.since(session.since()),
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

    /// Returns the parcels of this turn with their counts, after the driver has tried all sockets.
    pub(crate) fn take_completed_parcels(&mut self) -> Vec<(Parcel, Counts)> {
        let mut completed = Vec::new();
        for delivered in self.parcels_in_flight.drain(..) {
            let mut counts = Counts {
                written: 0,
                queued: delivered.queued,
                shed: delivered.shed,
            };
            for (connection, count) in delivered.written {
                match self.connections.get(connection) {
                    Some(connection) if connection.send_buffer.is_empty() => {
                        counts.written += count;
                    }
                    Some(_) => counts.queued += count,
                    None => counts.shed += count,
                }
            }
            completed.push((delivered.parcel, counts));
        }
        completed
    }
}
