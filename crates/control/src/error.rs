//! Errors: why the control API does not start, or does not take tokens, tickets and bans.

use std::io;
use std::net::SocketAddr;

use auth::TicketError;
use auth::bans::BanError;
use auth::revocations::RevocationError;
use replication::DecodeError;
use thiserror::Error;

/// Reason why the control API did not start. Its `Display` form says what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be bound.
    #[error(
        "the control listener cannot bind {address}: {error}; choose another address, or stop the \
         program that listens on it"
    )]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The listener cannot be used.
    #[error("the control listener cannot be used: {0}; it must be a bound, listening TCP socket")]
    Listener(#[source] io::Error),
    /// The threads cannot be started.
    #[error(
        "the threads of the control API cannot be started: {0}; raise the limits on processes and \
         open files"
    )]
    Threads(#[source] io::Error),
    /// Other machines can reach the address, and there is no token.
    #[error(
        "the control listener on {address} can be reached from other machines and has no token; \
         set one with --control-token-file or --control-tokens, or listen on 127.0.0.1"
    )]
    TokenMissing {
        /// The address.
        address: SocketAddr,
    },
    /// A token is invalid.
    #[error("{0}")]
    Tokens(#[source] TokensError),
    /// A reload would leave no token where one is needed.
    #[error(
        "the control listener can be reached from other machines and would have no token; the \
         tokens in force stay; set one with --control-token-file or --control-tokens"
    )]
    TokensRemoved,
    /// The demo page is configured where other machines could use it.
    #[error(
        "the page can publish only if the control listener is on loopback and has no token; remove \
         --demo, or listen on 127.0.0.1 without a token"
    )]
    DemoNotPrivate,
    /// Revocations, bans and hidden ids that are stored with the graph cannot be read.
    #[error(
        "the revocations, bans and hidden ids that are stored with the graph cannot be read: {0}; \
         use the version that wrote them, or a newer one"
    )]
    Stored(DecodeError),
}

/// Reason why tokens cannot be used. Its `Display` is a sentence that shows no secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("token `{about}`: {why}")]
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

/// Reason why a ticket, a revocation, a ban or a hidden id is refused.
#[derive(Debug, Error)]
pub(crate) enum IdentityError {
    #[error(transparent)]
    Ticket(#[from] TicketError),
    #[error(transparent)]
    Revocation(#[from] RevocationError),
    #[error(transparent)]
    Ban(#[from] BanError),
    /// There is no room for another hidden id. The text is a sentence.
    #[error("{0}")]
    HiddenIdsFull(String),
}

impl IdentityError {
    /// Returns whether there are too many. Otherwise the request is invalid.
    pub(crate) const fn is_full(&self) -> bool {
        matches!(
            self,
            Self::Ticket(TicketError::Full)
                | Self::Revocation(RevocationError::Full)
                | Self::Ban(BanError::Full)
                | Self::HiddenIdsFull(_)
        )
    }
}
