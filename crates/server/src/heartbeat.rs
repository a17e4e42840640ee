//! Heartbeats of idle sessions.
//!
//! A scan over all slots sends them; one pass takes the time between two heartbeats.

use std::sync::Arc;
use std::time::Duration;

use reactor::{Driver, SlotScan, Tick};
use wire::frame::{self, Position};
use wire::transport::Framing;
use wire::websocket::{Opcode, push_frame};

use crate::frames::push;
use crate::limits::HEARTBEAT_SCAN_INTERVAL;
use crate::session::WebSockets;
use crate::settings::LiveSettings;
use crate::stage::Stage;
use crate::stats::Metric;
use crate::table::{CloseReason, ConnectionTable, Extras, Phase};

/// A session younger than a tenth of the period gets no heartbeat, so its first may be late by a
/// tenth.
pub(crate) const YOUNG: u32 = 10;

/// Heartbeats of one worker.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    /// Time between two heartbeats of a session; zero for no heartbeats.
    period: Duration,
    scan: SlotScan,
}

impl Stage for Heartbeats {
    fn next_in(&self, now: Tick, connections: usize) -> Option<Duration> {
        let is_needed = !self.period.is_zero() && connections > 0;
        is_needed.then(|| self.scan.next_in(now))
    }

    fn reload(&mut self, live: &Arc<LiveSettings>) {
        self.period = live.heartbeat;
    }
}

impl Heartbeats {
    pub(crate) const fn new(period: Duration) -> Self {
        Self {
            period,
            scan: SlotScan::new(HEARTBEAT_SCAN_INTERVAL),
        }
    }

    /// Sends a heartbeat to each idle session whose slot is due. It carries `position` unless the
    /// session is fed from the history.
    pub(crate) fn send<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        websockets: &mut WebSockets,
        position: Option<Position<'_>>,
    ) {
        if self.period.is_zero() {
            return;
        }
        let now = table.clock.now;
        for index in self.scan.due(now, table.slots(), self.period) {
            if let Some((key, connection)) = table.at(index)
                && !connection.blocked
                && let Phase::Open(session) = connection.phase
                // The response head has just been sent, and storms of connections have enough to
                // do.
                && now.since(connection.since.tick()) >= self.period / YOUNG
                && let Some(heartbeat) = frame::heartbeat(session.encoding.transport())
            {
                let is_fed = connection.extras.has(Extras::FED);
                let is_websocket = session.framing == Framing::WebSocket;
                if is_websocket && !websockets.is_alive(table, key) {
                    table.close(key, CloseReason::Timeout);
                    continue;
                }
                table.stats.add(Metric::Heartbeats, 1);
                match position.filter(|_| !is_fed) {
                    None => table.send(key, heartbeat.bytes(session.framing)),
                    Some(position) => {
                        let mut out = table.scratch();
                        let transport = session.encoding.transport();
                        if is_websocket {
                            push_frame(Opcode::Ping, &[], &mut out);
                        }
                        push(&mut out, |out| {
                            frame::position(transport, position, out).range(session.framing)
                        });
                        table.send(key, &out);
                        table.put_back(out);
                    }
                }
            }
        }
    }
}
