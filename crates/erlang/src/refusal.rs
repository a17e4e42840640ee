//! What is not taken from a peer.

use std::fmt;

use crate::metrics::Metric;
use crate::term::TermError;

/// Why something of a peer was refused. Counted by kind; each kind is logged once a minute at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The peer does not know the cookie.
    Cookie,
    /// The peer lacks capabilities that are needed, or speaks another version.
    Version,
    /// The peer's name is not that of a node, or is that of this one.
    Name,
    /// A message of the handshake is malformed or out of turn.
    Handshake,
    /// The handshake took too long.
    HandshakeSlow,
    /// The peer was silent for longer than the tick time.
    Silent,
    /// A message is larger than allowed, or too many large ones came at once.
    TooLarge,
    /// A message is no control message, or a fragment belongs to none.
    Message,
    /// A term is not taken.
    Term(TermError),
    /// A message is for nobody who is here, or nobody here understands it.
    NotUnderstood,
    /// The peer takes nothing of what it is sent.
    Slow,
    /// The peer said that it does not want the connection.
    Declined,
}

impl Refusal {
    /// How many kinds there are.
    pub const KINDS: usize = 12;

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
    ];

    /// The kind's number, below [`Self::KINDS`].
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
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cookie => "it has another cookie; give both nodes the same",
            Self::Version => "it lacks what OTP 25 and later have; upgrade it",
            Self::Name => "its name is not that of a node like name@host, or is taken here",
            Self::Handshake => "it does not keep to the handshake; is it an Erlang node?",
            Self::HandshakeSlow => "its handshake takes too long",
            Self::Silent => "it is silent for longer than the tick time",
            Self::TooLarge => {
                "it sends messages that are larger than allowed, or too many large ones at once"
            }
            Self::Message => "it sends what is not a message of the distribution protocol",
            Self::Term(error) => return fmt::Display::fmt(error, f),
            Self::NotUnderstood => {
                "it sends messages for nobody who is here, or none that are understood"
            }
            Self::Slow => "it does not take what is sent to it",
            Self::Declined => "it does not want the connection",
        })
    }
}

impl From<TermError> for Refusal {
    fn from(error: TermError) -> Self {
        Self::Term(error)
    }
}
