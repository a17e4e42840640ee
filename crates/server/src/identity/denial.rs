//! Reasons to refuse a session, and the answers (RFC 6750, section 3).

use auth::{TicketError, TokenError};
use graph::IdError;
use wire::status::Status;
use wire::target::IdsError;
use wire::transport::Transport;

use super::credential::CredentialError;
use crate::answer::{Answer, Fields};
use crate::stats::Metric;

/// What a client that is kept away is told where an error ends its attempts.
const KEPT_AWAY: &str = "The client, or this id, is kept away for a while.";

/// What a client is told whose login nobody has decided on. It may come back.
pub(crate) const UNDECIDED: &str =
    "the application behind this server has not decided on this login; try again later";

/// Reason to refuse a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The ids of the target are not valid.
    Target(IdsError),
    /// An id is not valid.
    Id(IdError),
    /// The request carries no proof of identity.
    NoCredential,
    /// The credentials are not usable.
    Credential(CredentialError),
    /// The token is not accepted, or does not allow an id.
    Token(TokenError),
    /// The ticket is not accepted.
    Ticket(TicketError),
    /// The request names no id, and the token does not say who the client is.
    NoSubject,
    /// The client is kept away for a while.
    Banned,
    /// The program that decides on logins has refused this one.
    Declined,
    /// Nobody has decided on the login in time.
    Undecided,
}

impl Denial {
    /// Returns the metric that counts refusals for this reason; `None` if identity has nothing to
    /// do with it.
    pub(crate) const fn metric(&self) -> Option<Metric> {
        Some(match self {
            Self::Target(_) | Self::Id(_) => return None,
            Self::NoCredential => Metric::DeniedNone,
            Self::Credential(CredentialError::Several) => Metric::DeniedSeveral,
            Self::Credential(CredentialError::Malformed) => Metric::DeniedMalformed,
            Self::Credential(CredentialError::UntrustedPeer) => Metric::DeniedUntrustedPeer,
            Self::Ticket(_) => Metric::DeniedTicket,
            Self::NoSubject => Metric::DeniedNoSubject,
            Self::Banned => Metric::DeniedBanned,
            Self::Declined => Metric::DeniedDeclined,
            Self::Undecided => Metric::DeniedUndecided,
            Self::Token(error) => match error {
                TokenError::TooLong | TokenError::Malformed(_) | TokenError::Type => {
                    Metric::DeniedMalformed
                }
                TokenError::Algorithm | TokenError::Critical => Metric::DeniedAlgorithm,
                TokenError::UnknownKey(_) | TokenError::NoKey | TokenError::KeyIdNeeded => {
                    Metric::DeniedUnknownKey
                }
                TokenError::Signature => Metric::DeniedSignature,
                TokenError::NoExpiry | TokenError::Expired => Metric::DeniedExpired,
                TokenError::Revoked => Metric::DeniedRevoked,
                TokenError::Scope => Metric::DeniedScope,
                _ => Metric::DeniedClaim,
            },
        })
    }

    /// Returns the answer to a request for a stream of `transport`. See [`answer`](Self::answer);
    /// for a WebSocket a ban is an error as others are.
    pub(crate) fn answer_on(&self, transport: Transport) -> Answer {
        match (self, transport) {
            (Self::Banned, Transport::WebSocket) => Answer::error(Status::FORBIDDEN, KEPT_AWAY),
            _ => self.answer(),
        }
    }

    /// Returns the answer. A browser's `EventSource` ends for good on each of them, which is right
    /// except for [`Self::Undecided`]: the same request would be refused again.
    pub(crate) fn answer(&self) -> Answer {
        match self {
            Self::Target(error) => Answer::error(error.status(), error.reason()),
            Self::Id(error) => Answer::error_owned(Status::BAD_REQUEST, error.to_string()),
            // No error code: the client may not know that it needs a token (section 3.1).
            Self::NoCredential => challenge(
                Status::UNAUTHORIZED,
                None,
                "This server needs to know who you are: send a token or a ticket.",
            ),
            Self::Credential(error) => {
                challenge(Status::BAD_REQUEST, Some("invalid_request"), error.reason())
            }
            Self::NoSubject => challenge(
                Status::BAD_REQUEST,
                Some("invalid_request"),
                "The request names no id, and the token has no sub: name an id.",
            ),
            Self::Token(error) => {
                let code = error.code();
                challenge(status(code.status()), Some(code.text()), error.sentence())
            }
            Self::Ticket(_) => challenge(
                Status::UNAUTHORIZED,
                Some("invalid_token"),
                "The ticket is not good: it was not used in time, or its session ended more than \
                 two minutes ago. Get a new one.",
            ),
            Self::Banned => Answer::stay_away(),
            Self::Declined => Answer::error(
                Status::FORBIDDEN,
                "The application behind this server does not let this client read these ids.",
            ),
            Self::Undecided => Answer::busy(UNDECIDED),
        }
    }
}

fn status(code: u16) -> Status {
    let known = Status::ALL.iter().find(|status| status.code() == code);
    known.copied().unwrap_or(Status::UNAUTHORIZED)
}

/// An error with a `WWW-Authenticate` field. `sentence` has neither quotes nor backslashes.
fn challenge(status: Status, code: Option<&'static str>, sentence: &'static str) -> Answer {
    let mut field = "Bearer realm=\"encke\"".to_owned();
    if let Some(code) = code {
        field.push_str(&format!(
            ", error=\"{code}\", error_description=\"{sentence}\""
        ));
    }
    Answer {
        fields: Fields::Challenge(field),
        ..Answer::error(status, sentence)
    }
}

impl CredentialError {
    /// Returns a sentence for the client: what was wrong and what is needed.
    const fn reason(self) -> &'static str {
        match self {
            Self::Several => "The request has several tokens or tickets: send one, in one place.",
            Self::Malformed => "The token or the ticket is not text: send it as it was issued.",
            Self::UntrustedPeer => {
                "The request names a user, which only a trusted proxy may do: add the address of \
                 the proxy to --trusted-proxy."
            }
        }
    }
}

impl From<IdsError> for Denial {
    fn from(error: IdsError) -> Self {
        Self::Target(error)
    }
}

impl From<IdError> for Denial {
    fn from(error: IdError) -> Self {
        Self::Id(error)
    }
}

impl From<CredentialError> for Denial {
    fn from(error: CredentialError) -> Self {
        Self::Credential(error)
    }
}

impl From<TokenError> for Denial {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}

impl From<TicketError> for Denial {
    fn from(error: TicketError) -> Self {
        Self::Ticket(error)
    }
}
