//! Readiness: whether clients should be sent to this node.

use std::time::Duration;

/// Time without an answer or heartbeat of the engine after which the node is not ready. Heartbeats
/// come twice a second.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(2);

/// Time without a leader of the log after which the node is not ready, appends are refused at once,
/// and another server of the engine is tried. It is longer than an election, during which appends
/// wait and clients are no better off at another node.
pub(crate) const LEADERLESS_MAX: Duration = Duration::from_secs(10);

/// Lag beyond which the node is not ready.
const LAG_MAX: Duration = Duration::from_secs(5);

/// Inputs of readiness.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Signs<'a> {
    /// Reason why the node has stopped applying entries, if it has.
    pub(crate) stopped: Option<&'a str>,
    /// Last entry that was in the log when the node joined.
    pub(crate) at_start: u64,
    /// Last entry that is applied.
    pub(crate) applied: u64,
    /// Whether the node has read its own incarnation in the log. Before that, receipts do not
    /// include it.
    pub(crate) is_member: bool,
    /// Time since the last answer or heartbeat of the engine.
    pub(crate) silence: Duration,
    /// Time since the leader of the log last answered.
    pub(crate) leaderless: Duration,
    /// Time by which the node is behind the log.
    pub(crate) lag: Duration,
}

impl Signs<'_> {
    /// Returns whether the engine can be reached.
    pub(crate) fn is_connected(&self) -> bool {
        self.silence <= SILENCE_MAX
    }

    /// Returns why the node is not ready; `None` if it is.
    pub(crate) fn not_ready(&self) -> Option<String> {
        if let Some(reason) = self.stopped {
            return Some(format!("this node no longer applies entries: {reason}"));
        }
        if self.applied < self.at_start {
            let missing = self.at_start - self.applied;
            return Some(format!(
                "{missing} entries that were in the log at the start are not yet applied"
            ));
        }
        if !self.is_member {
            return Some("this node's own incarnation is not yet in the log".to_owned());
        }
        if !self.is_connected() {
            let seconds = self.silence.as_secs();
            return Some(format!(
                "the cluster's engine was last heard {seconds} s ago"
            ));
        }
        if self.leaderless > LEADERLESS_MAX {
            let seconds = self.leaderless.as_secs();
            return Some(format!("the log has had no leader for {seconds} s"));
        }
        if self.lag > LAG_MAX {
            let seconds = self.lag.as_secs();
            return Some(format!("this node is {seconds} s behind the log"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_node_is_ready_when_it_has_caught_up_and_keeps_up() {
        let ready = Signs {
            at_start: 7,
            applied: 7,
            is_member: true,
            silence: seconds(2),
            leaderless: seconds(10),
            lag: seconds(5),
            stopped: None,
        };
        assert_eq!(ready.not_ready(), None);
        let more = Duration::from_millis(1);
        let cases = [
            (
                "3 entries",
                Signs {
                    applied: 4,
                    ..ready
                },
            ),
            (
                "incarnation",
                Signs {
                    is_member: false,
                    ..ready
                },
            ),
            (
                "heard",
                Signs {
                    silence: ready.silence + more,
                    ..ready
                },
            ),
            (
                "leader",
                Signs {
                    leaderless: ready.leaderless + more,
                    ..ready
                },
            ),
            (
                "behind",
                Signs {
                    lag: ready.lag + more,
                    ..ready
                },
            ),
            (
                "bad entry",
                Signs {
                    stopped: Some("bad entry"),
                    ..ready
                },
            ),
        ];
        for (word, signs) in cases {
            let reason = signs.not_ready().expect(word);
            assert!(reason.contains(word), "{reason}");
        }
    }
}
