//! The two ways in which a client reads its events.

use wire::status::Status;
use wire::transport::Transport;

use crate::answer::Answer;
use crate::identity::Denial;

/// How a client reads its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Stream(Transport),
    /// By requests that are answered from the history.
    Poll,
}

impl Reading {
    /// Returns its name, as observers and programs that decide on logins are told.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stream(transport) => transport.name(),
            Self::Poll => "poll",
        }
    }

    /// Returns the answer to a request that is refused. A 204 would say to a client that polls that
    /// there is nothing new, and it would ask again at once: a ban needs another status.
    pub(super) fn denied(self, denial: &Denial) -> Answer {
        match (self, denial) {
            (Self::Poll, Denial::Banned) => Answer::error(
                Status::FORBIDDEN,
                "this id may not connect for now; do not try again",
            ),
            (Self::Poll, denial) => denial.answer(),
            (Self::Stream(transport), denial) => denial.answer_on(transport),
        }
    }
}
