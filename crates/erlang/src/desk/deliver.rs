//! Events to processes that are logged in.

use ::router::{Counts, Mailboxes, Parcel};
use reactor::SlotKey;
use server::SessionReport;

use super::Desk;
use crate::lines::{LineId, Lines, Taken};
use crate::payload;

/// A parcel that was taken. It is settled when it is known what became of it.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) parcel: Parcel,
    /// Messages written for each node.
    written: Vec<(LineId, u64)>,
    queued: u64,
    shed: u64,
}

impl<M: Mailboxes> Desk<M> {
    /// Writes a parcel's events for those processes that are still logged in.
    pub(crate) fn deliver(&mut self, lines: &mut Lines, parcel: Parcel) -> Delivered {
        let mut written: Vec<(LineId, u64)> = Vec::new();
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
                let pid = (process.id, process.serial);
                match lines.deliver(process.line, pid, &message) {
                    Taken::Written => match written.last_mut() {
                        Some((line, count)) if *line == process.line => *count += 1,
                        _ => written.push((process.line, 1)),
                    },
                    Taken::Waits => queued += 1,
                    Taken::Shed => shed += 1,
                }
            }
        }
        Delivered {
            parcel,
            written,
            queued,
            shed,
        }
    }

    /// What is told of sessions.
    pub(crate) fn report(&mut self, lines: &Lines, recipients: &[SlotKey]) -> Vec<SessionReport> {
        let graph = self.router.graph();
        let now = self.now;
        let (worker, sessions) = (self.worker, &mut self.sessions);
        let reports = recipients.iter().filter_map(|&slot| {
            let session = sessions.get(slot)?;
            let line = lines.get(session.process.line);
            Some(SessionReport {
                session: ::router::SessionRef::new(worker, slot),
                ids: session
                    .keys()
                    .iter()
                    .filter_map(|&key| graph.name(key))
                    .collect(),
                transport: "erlang",
                age: now.since(session.since()),
                peer: line.and_then(|line| line.address),
                backlog_frames: 0,
                backlog_bytes: 0,
                bytes_acknowledged: None,
                bytes_unacknowledged: None,
            })
        });
        reports.collect()
    }

    /// Ends the sessions of nodes that are gone, of some of the slots. Returns where to go on.
    pub(crate) fn sweep(&mut self, lines: &Lines, from: u32, slots: u32) -> Option<u32> {
        let end = self.sessions.slots().min(from + slots);
        for index in from..end {
            let Some(slot) = self.sessions.at(index) else {
                continue;
            };
            let is_gone = self
                .sessions
                .get(slot)
                .is_some_and(|session| lines.get(session.process.line).is_none());
            if is_gone {
                self.end(slot);
            }
        }
        (end < self.sessions.slots()).then_some(end)
    }
}

impl Delivered {
    /// What became of the parcel, now that all sockets were tried.
    pub(crate) fn counts(&self, lines: &Lines) -> Counts {
        let mut counts = Counts {
            queued: self.queued,
            shed: self.shed,
            ..Counts::default()
        };
        for &(line, count) in &self.written {
            match lines.get(line) {
                Some(line) if line.out.is_empty() => counts.written += count,
                Some(_) => counts.queued += count,
                None => counts.shed += count,
            }
        }
        counts
    }
}
