//! Behaviours of clients, including those that misbehave on purpose.

use std::time::Duration;

use clap::Args;
use cli::units::duration;

/// Numbers of misbehaving clients. They are the first clients, in the order of these fields; the
/// others behave well.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Misbehaving clients (the first of all)")]
pub struct ClientBehaviours {
    /// Number of clients that stop reading after the response head
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub stop_reading: u32,
    /// Number of clients that read one byte at a time
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub slow: u32,
    /// Number of clients that reset their connection and reconnect
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub reset: u32,
    /// Number of clients that close their connection and reconnect
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub reconnect: u32,
    /// Number of clients that send their request, or with TLS their first message, one byte at a
    /// time
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub trickle: u32,
    /// Time between two bytes, before a disconnect, and before a reconnect
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
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
