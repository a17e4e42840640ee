//! Reasons why pairs are closed.

use crate::tcp::metrics::Metric;

/// Reason why a pair is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// Both sides have ended, and each has received everything that the other one sent.
    Done,
    /// A side was reset or failed.
    Reset,
    /// No bytes moved for too long.
    Timeout,
    /// No backend accepted a connection.
    NoBackend,
    /// The client did not send a valid PROXY header in time.
    Header,
    /// The client's source has reached its limit of connections.
    Refused,
    /// The proxy is shutting down.
    Drain,
}

impl CloseReason {
    /// Returns the reason's name in the access log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::NoBackend => "no-backend",
            Self::Header => "header",
            Self::Refused => "refused",
            Self::Drain => "drain",
        }
    }

    /// Returns the metric that counts it, if it is counted where pairs are removed.
    pub(crate) const fn metric(self) -> Option<Metric> {
        Some(match self {
            Self::Done => Metric::ClosedDone,
            Self::Reset => Metric::ClosedReset,
            Self::Timeout => Metric::ClosedTimeout,
            Self::NoBackend => Metric::ClosedNoBackend,
            Self::Header => Metric::ClosedHeader,
            Self::Drain => Metric::ClosedDrain,
            // Counted at the refusal.
            Self::Refused => return None,
        })
    }
}
