//! Errors: why the control API does not start, or does not take tokens, tickets and bans.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use auth::TicketError;
use auth::bans::BanError;
use auth::revocations::RevocationError;
use replication::DecodeError;

/// Reason why the control API did not start. Its `Display` form says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be bound.
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
    /// The listener cannot be used.
    Listener(io::Error),
    /// The threads cannot be started.
    Threads(io::Error),
    /// Other machines can reach the address, and there is no token.
    TokenMissing {
        /// The address.
        address: SocketAddr,
    },
    /// A token is invalid.
    Tokens(TokensError),
    /// A reload would leave no token where one is needed.
    TokensRemoved,
    /// The demo page is configured where other machines could use it.
    DemoNotPrivate,
    /// Revocations, bans and hidden ids that are stored with the graph cannot be read.
    Stored(DecodeError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, error } => write!(
                f,
                "the control listener cannot bind {address}: {error}; choose another address, or \
                 stop the program that listens on it"
            ),
            Self::Listener(error) => write!(
                f,
                "the control listener cannot be used: {error}; it must be a bound, listening TCP \
                 socket"
            ),
            Self::Threads(error) => write!(
                f,
                "the threads of the control API cannot be started: {error}; raise the limits on \
                 processes and open files"
            ),
            Self::TokenMissing { address } => write!(
                f,
                "the control listener on {address} can be reached from other machines and has no \
                 token; set one with --control-token-file or --control-tokens, or listen on \
                 127.0.0.1"
            ),
            Self::Tokens(error) => error.fmt(f),
            Self::TokensRemoved => f.write_str(
                "the control listener can be reached from other machines and would have no token; \
                 the tokens in force stay; set one with --control-token-file or --control-tokens",
            ),
            Self::DemoNotPrivate => f.write_str(
                "the page can publish only if the control listener is on loopback and has no \
                 token; remove --demo, or listen on 127.0.0.1 without a token",
            ),
            Self::Stored(error) => write!(
                f,
                "the revocations, bans and hidden ids that are stored with the graph cannot be \
                 read: {error}; use the version that wrote them, or a newer one"
            ),
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Bind { error, .. } | Self::Listener(error) | Self::Threads(error) => Some(error),
            Self::Tokens(error) => Some(error),
            _ => None,
        }
    }
}

/// Reason why tokens cannot be used. Its `Display` is a sentence that shows no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokensError {
    /// The name of the token, or its place in the file.
    about: String,
    why: String,
}

impl TokensError {
    pub(crate) fn new(about: &str, why: impl Into<String>) -> Self {
        let (about, why) = (about.to_owned(), why.into());
        Self { about, why }
    }
}

impl fmt::Display for TokensError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token `{}`: {}", self.about, self.why)
    }
}

impl Error for TokensError {}

/// Reason why a ticket, a revocation, a ban or a hidden id is refused.
#[derive(Debug)]
pub(crate) struct IdentityError {
    pub(crate) sentence: String,
    /// Whether there are too many. Otherwise the request is invalid.
    pub(crate) is_full: bool,
}

impl IdentityError {
    /// Makes the error that there are too many.
    pub(crate) fn full(error: &impl fmt::Display) -> Self {
        Self {
            sentence: error.to_string(),
            is_full: true,
        }
    }

    fn new<E: PartialEq + fmt::Display>(error: &E, full: &E) -> Self {
        Self {
            sentence: error.to_string(),
            is_full: error == full,
        }
    }
}

impl From<TicketError> for IdentityError {
    fn from(error: TicketError) -> Self {
        Self::new(&error, &TicketError::Full)
    }
}

impl From<RevocationError> for IdentityError {
    fn from(error: RevocationError) -> Self {
        Self::new(&error, &RevocationError::Full)
    }
}

impl From<BanError> for IdentityError {
    fn from(error: BanError) -> Self {
        Self::new(&error, &BanError::Full)
    }
}
