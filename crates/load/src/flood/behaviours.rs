//! Behaviours of clients: which of them behave badly on purpose, and how.

use std::time::Duration;

/// Numbers of clients that behave badly. They are the first clients, in the order of these fields;
/// the rest behave well.
#[derive(Debug, Clone, Copy)]
pub struct ClientBehaviours {
    /// Read the head and then never again.
    pub stop_reading: u32,
    /// Read the head, then a byte at a time.
    pub slow: u32,
    /// Break their connection with a reset, and come back.
    pub reset: u32,
    /// Close their connection, and come back.
    pub reconnect: u32,
    /// Send their request a byte at a time.
    pub trickle: u32,
    /// How long the slow and the trickling wait between two bytes, and the others before they close
    /// and before they come back.
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

/// What one client does.
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
    /// Whether its receive buffer is as small as the kernel allows, so that the server notices
    /// soon.
    pub(super) fn reads_little(self) -> bool {
        matches!(self, Self::StopsReading | Self::Slow)
    }

    /// Whether it comes back after its connection has ended.
    pub(super) fn comes_back(self) -> bool {
        matches!(self, Self::Resets | Self::Reconnects)
    }
}

impl ClientBehaviours {
    /// How many behave badly.
    pub fn count(&self) -> u32 {
        self.kinds()
            .iter()
            .fold(0, |sum, (count, _)| sum.saturating_add(*count))
    }

    /// Whether some may open a stream when all streams are closed.
    pub(super) fn come_again(&self) -> bool {
        self.reset > 0 || self.reconnect > 0 || self.trickle > 0
    }

    /// The role of the client that is number `ordinal`, from 0.
    pub(super) fn behaviour(&self, ordinal: u32) -> Behaviour {
        let mut below = ordinal;
        for (count, role) in self.kinds() {
            if below < count {
                return role;
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
    fn the_first_clients_are_the_bad_ones() {
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
