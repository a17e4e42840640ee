//! Reasons for refusing a connection or a message.

use crate::metrics::Metric;
use crate::term::TermError;

/// The reason why a connection or a message was refused. Counted by kind; each kind is logged at
/// most once a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The peer has another cookie.
    #[error("it has another cookie; give both nodes the same one")]
    Cookie,
    /// The peer lacks required flags, or speaks another version.
    #[error("it lacks features of OTP 25 and later; upgrade it")]
    Version,
    /// The peer's name is malformed, or is the name of this node.
    #[error("its name is not of the form name@host, or is the name of this node")]
    Name,
    /// A handshake message is malformed or out of order.
    #[error("it does not follow the handshake; is it an Erlang node?")]
    Handshake,
    /// The handshake took too long.
    #[error("its handshake takes too long")]
    HandshakeSlow,
    /// The peer sent nothing for the tick time.
    #[error("it has sent nothing for the tick time")]
    Silent,
    /// A message is too large, or too many large ones are in progress.
    #[error("it sends messages that are larger than allowed, or too many large ones at once")]
    TooLarge,
    /// A control message is malformed, or a fragment belongs to no message.
    #[error("it sends data that is not a message of the distribution protocol")]
    Message,
    /// A term is malformed or exceeds a limit.
    #[error(transparent)]
    Term(#[from] TermError),
    /// A message is for a process that does not exist, or that does not understand it.
    #[error("it sends messages to unknown processes, or messages that are not understood")]
    NotUnderstood,
    /// The peer does not read what it is sent.
    #[error("it does not read the data sent to it")]
    Slow,
    /// The peer has refused the connection.
    #[error("it has declined the connection")]
    Declined,
    /// Too many nodes are connected, are in the handshake or are dialed.
    #[error(
        "too many nodes are connected, are in the handshake or are dialed; are some of them not \
         part of the cluster?"
    )]
    Crowded,
}

impl Refusal {
    /// The number of kinds. Their metrics are adjacent, as they are of one family.
    pub(crate) const KINDS: usize =
        1 + Metric::RefusedCrowded as usize - Metric::RefusedCookie as usize;

    /// Returns the number of the kind, below [`Self::KINDS`].
    pub(crate) const fn kind(self) -> usize {
        self.metric() as usize - Metric::RefusedCookie as usize
    }

    /// Returns the metric of the kind.
    pub(crate) const fn metric(self) -> Metric {
        match self {
            Self::Cookie => Metric::RefusedCookie,
            Self::Version => Metric::RefusedVersion,
            Self::Name => Metric::RefusedName,
            Self::Handshake => Metric::RefusedHandshake,
            Self::HandshakeSlow => Metric::RefusedHandshakeSlow,
            Self::Silent => Metric::RefusedSilent,
            Self::TooLarge => Metric::RefusedTooLarge,
            Self::Message => Metric::RefusedMessage,
            Self::Term(_) => Metric::RefusedTerm,
            Self::NotUnderstood => Metric::RefusedNotUnderstood,
            Self::Slow => Metric::RefusedSlow,
            Self::Declined => Metric::RefusedDeclined,
            Self::Crowded => Metric::RefusedCrowded,
        }
    }
}
