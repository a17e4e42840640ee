//! Clients that behave badly on purpose: which of them do, and how.

use std::time::Duration;

/// How many clients of each kind there are; they are the first ones, in this order. The rest are
/// good.
#[derive(Debug, Clone, Copy)]
pub struct Citizens {
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

impl Default for Citizens {
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
pub(super) enum Role {
    Good,
    StopsReading,
    Slow,
    Resets,
    Reconnects,
    Trickles,
}

impl Role {
    /// Whether its receive buffer is as small as the kernel allows, so that the server notices soon.
    pub(super) fn reads_little(self) -> bool {
        matches!(self, Self::StopsReading | Self::Slow)
    }

    /// Whether it comes back after its connection has ended.
    pub(super) fn comes_back(self) -> bool {
        matches!(self, Self::Resets | Self::Reconnects)
    }
}

impl Citizens {
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
    pub(super) fn role(&self, ordinal: u32) -> Role {
        let mut below = ordinal;
        for (count, role) in self.kinds() {
            if below < count {
                return role;
            }
            below -= count;
        }
        Role::Good
    }

    fn kinds(&self) -> [(u32, Role); 5] {
        [
            (self.stop_reading, Role::StopsReading),
            (self.slow, Role::Slow),
            (self.reset, Role::Resets),
            (self.reconnect, Role::Reconnects),
            (self.trickle, Role::Trickles),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clients_are_the_bad_ones() {
        let citizens = Citizens {
            stop_reading: 2,
            reset: 1,
            trickle: 1,
            ..Citizens::default()
        };
        let roles: Vec<Role> = (0..6).map(|ordinal| citizens.role(ordinal)).collect();
        use Role::{Good, Resets, StopsReading, Trickles};
        let expected = [StopsReading, StopsReading, Resets, Trickles, Good, Good];
        assert_eq!(roles, expected);
        assert_eq!(citizens.count(), 4);
    }
}
