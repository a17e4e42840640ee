//! Reasons for refusing a connection or a message.

use std::fmt;

use crate::metrics::Metric;
use crate::term::TermError;

/// The reason why a connection or a message was refused. Counted by kind; each kind is logged at
/// most once a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The peer has another cookie.
    Cookie,
    /// The peer lacks required flags, or speaks another version.
    Version,
    /// The peer's name is malformed, or is the name of this node.
    Name,
    /// A handshake message is malformed or out of order.
    Handshake,
    /// The handshake took too long.
    HandshakeSlow,
    /// The peer sent nothing for the tick time.
    Silent,
    /// A message is too large, or too many large ones are in progress.
    TooLarge,
    /// A control message is malformed, or a fragment belongs to no message.
    Message,
    /// A term is malformed or exceeds a limit.
    Term(TermError),
    /// A message is for a process that does not exist, or that does not understand it.
    NotUnderstood,
    /// The peer does not read what it is sent.
    Slow,
    /// The peer has refused the connection.
    Declined,
    /// Too many nodes are connected, are in the handshake or are dialed.
    Crowded,
}

impl Refusal {
    /// The number of kinds.
    pub const KINDS: usize = 13;

    /// The metric of each kind, in the order of their numbers.
    pub(crate) const METRICS: [Metric; Self::KINDS] = [
        Metric::RefusedCookie,
        Metric::RefusedVersion,
        Metric::RefusedName,
        Metric::RefusedHandshake,
        Metric::RefusedHandshakeSlow,
        Metric::RefusedSilent,
        Metric::RefusedTooLarge,
        Metric::RefusedMessage,
        Metric::RefusedTerm,
        Metric::RefusedSlow,
        Metric::RefusedDeclined,
        Metric::RefusedNotUnderstood,
        Metric::RefusedCrowded,
    ];

    /// Returns the number of the kind, below [`Self::KINDS`].
    pub const fn kind(self) -> usize {
        match self {
            Self::Cookie => 0,
            Self::Version => 1,
            Self::Name => 2,
            Self::Handshake => 3,
            Self::HandshakeSlow => 4,
            Self::Silent => 5,
            Self::TooLarge => 6,
            Self::Message => 7,
            Self::Term(_) => 8,
            Self::Slow => 9,
            Self::Declined => 10,
            Self::NotUnderstood => 11,
            Self::Crowded => 12,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cookie => "it has another cookie; give both nodes the same one",
            Self::Version => "it lacks features of OTP 25 and later; upgrade it",
            Self::Name => "its name is not of the form name@host, or is the name of this node",
            Self::Handshake => "it does not follow the handshake; is it an Erlang node?",
            Self::HandshakeSlow => "its handshake takes too long",
            Self::Silent => "it has sent nothing for the tick time",
            Self::TooLarge => {
                "it sends messages that are larger than allowed, or too many large ones at once"
            }
            Self::Message => "it sends data that is not a message of the distribution protocol",
            Self::Term(error) => return fmt::Display::fmt(error, f),
            Self::NotUnderstood => {
                "it sends messages to unknown processes, or messages that are not understood"
            }
            Self::Slow => "it does not read the data sent to it",
            Self::Declined => "it has declined the connection",
            Self::Crowded => {
                "too many nodes are connected, are in the handshake or are dialed; are some of \
                 them not part of the cluster?"
            }
        })
    }
}

impl From<TermError> for Refusal {
    fn from(error: TermError) -> Self {
        Self::Term(error)
    }
}
