//! Behaviours of clients, including those that misbehave on purpose.

use std::time::Duration;

/// Numbers of misbehaving clients. They are the first clients, in the order of these fields; the
/// others behave well.
#[derive(Debug, Clone, Copy)]
pub struct ClientBehaviours {
    /// Clients that read the head and then nothing more.
    pub stop_reading: u32,
    /// Clients that read the head, then one byte each `every`.
    pub slow: u32,
    /// Clients that reset their connection and reconnect.
    pub reset: u32,
    /// Clients that close their connection and reconnect.
    pub reconnect: u32,
    /// Clients that send their request one byte each `every`.
    pub trickle: u32,
    /// Time between two bytes for `slow` and `trickle`; for `reset` and `reconnect`, time before
    /// they close and before they reconnect.
    pub every: Duration,
}

impl Default for ClientBehaviours {
    fn default() -> Self {
        Self {
            stop_reading: 0,
            slow: 0,
            reset: 0,
            reconnect: 0,
            trickle: 0,
            every: Duration::from_secs(1),
        }
    }
}

/// Behaviour of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    Good,
    StopsReading,
    Slow,
    Resets,
    Reconnects,
    Trickles,
}

impl Behaviour {
    /// Whether its receive buffer is as small as the kernel allows, so that the server soon notices
    /// that it does not read.
    pub(super) fn reads_little(self) -> bool {
        matches!(self, Self::StopsReading | Self::Slow)
    }

    /// Whether it reconnects after its connection has ended.
    pub(super) fn reconnects(self) -> bool {
        matches!(self, Self::Resets | Self::Reconnects)
    }
}

impl ClientBehaviours {
    /// Number of misbehaving clients.
    pub fn count(&self) -> u32 {
        self.kinds()
            .iter()
            .fold(0, |sum, (count, _)| sum.saturating_add(*count))
    }

    /// Whether a client may open a stream later although all streams are closed now.
    pub(super) fn may_open_later(&self) -> bool {
        self.reset > 0 || self.reconnect > 0 || self.trickle > 0
    }

    /// Behaviour of client number `ordinal`, from 0.
    pub(super) fn behaviour(&self, ordinal: u32) -> Behaviour {
        let mut below = ordinal;
        for (count, behaviour) in self.kinds() {
            if below < count {
                return behaviour;
            }
            below -= count;
        }
        Behaviour::Good
    }

    fn kinds(&self) -> [(u32, Behaviour); 5] {
        [
            (self.stop_reading, Behaviour::StopsReading),
            (self.slow, Behaviour::Slow),
            (self.reset, Behaviour::Resets),
            (self.reconnect, Behaviour::Reconnects),
            (self.trickle, Behaviour::Trickles),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clients_misbehave() {
        let behaviours = ClientBehaviours {
            stop_reading: 2,
            reset: 1,
            trickle: 1,
            ..ClientBehaviours::default()
        };
        let roles: Vec<Behaviour> = (0..6)
            .map(|ordinal| behaviours.behaviour(ordinal))
            .collect();
        use Behaviour::{Good, Resets, StopsReading, Trickles};
        let expected = [StopsReading, StopsReading, Resets, Trickles, Good, Good];
        assert_eq!(roles, expected);
        assert_eq!(behaviours.count(), 4);
    }
}
