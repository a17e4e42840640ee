//! Reasons to refuse a token, with the answer for the client (RFC 6750).
//!
//! A sentence must never repeat a part of the token, because it appears in a header field and may
//! appear in a log.

/// Error code of the `Bearer` scheme (RFC 6750, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The request is malformed: it has two tokens, or a token that cannot be parsed.
    InvalidRequest,
    /// The token is expired, revoked, malformed or invalid for another reason.
    InvalidToken,
    /// The token is valid, but does not allow this.
    InsufficientScope,
}

impl ErrorCode {
    /// Returns the code for `WWW-Authenticate`.
    pub const fn text(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidToken => "invalid_token",
            Self::InsufficientScope => "insufficient_scope",
        }
    }

    /// Returns the status to answer with: 400, 401 or 403.
    pub const fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::InvalidToken => 401,
            Self::InsufficientScope => 403,
        }
    }
}

/// Reason to refuse a token. Its `Display` is a sentence for the client, which fits into
/// `error_description` (RFC 6750, section 3: no quotes, no backslashes, ASCII).
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}", self.sentence())]
#[non_exhaustive]
pub enum TokenError {
    /// The token is longer than [`TOKEN_BYTES_MAX`](crate::policy::TOKEN_BYTES_MAX).
    TooLong,
    /// The text is not a signed JSON Web Token. The string names the part.
    Malformed(&'static str),
    /// The header names an algorithm that is not accepted.
    Algorithm,
    /// The header names an extension in `crit`, and none is supported (RFC 7515, section 4.1.11).
    Critical,
    /// The header names another type of token in `typ` (RFC 8725, section 3.11).
    Type,
    /// No key has the `kid` of the token. It may be a new one: the caller may fetch the key sets
    /// and try again.
    UnknownKey(Box<str>),
    /// There is no key for the algorithm of the token.
    NoKey,
    /// Too many keys fit a token without `kid`.
    KeyIdNeeded,
    /// The signature is wrong.
    Signature,
    /// There is no claim `exp`.
    NoExpiry,
    /// The claim `exp` is in the past.
    Expired,
    /// The claim `exp` is later than the policy allows.
    TooLongLived,
    /// The claim `nbf` or `iat` is in the future.
    NotYetValid,
    /// The claim `iss` is missing, or is not an accepted issuer.
    Issuer,
    /// The claim `aud` is missing, or does not name this server.
    Audience,
    /// A claim is malformed. The string names it and says what is needed.
    Claim(&'static str),
    /// Two claims have the same name.
    DuplicateClaim,
    /// The token was revoked.
    Revoked,
    /// The token does not allow an id of the request.
    Scope,
}

impl TokenError {
    /// Returns the code for `WWW-Authenticate`.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Scope => ErrorCode::InsufficientScope,
            _ => ErrorCode::InvalidToken,
        }
    }

    /// Returns the reason as a word, for metrics.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed(_) => "malformed",
            Self::Algorithm => "algorithm",
            Self::Critical => "critical",
            Self::Type => "type",
            Self::UnknownKey(_) | Self::NoKey | Self::KeyIdNeeded => "unknown_key",
            Self::Signature => "signature",
            Self::NoExpiry | Self::Expired => "expired",
            Self::TooLongLived => "too_long_lived",
            Self::NotYetValid => "not_yet_valid",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Claim(_) | Self::DuplicateClaim => "claim",
            Self::Revoked => "revoked",
            Self::Scope => "scope",
        }
    }

    /// Returns a sentence for the client: what was found and what is needed.
    pub const fn sentence(&self) -> &'static str {
        match self {
            Self::TooLong => "The token is longer than 8192 bytes: put less into it.",
            Self::Malformed(sentence) | Self::Claim(sentence) => sentence,
            Self::Algorithm => {
                "The token is not signed with HS256, RS256, ES256 or EdDSA: use one of these."
            }
            Self::Critical => "The header of the token has crit: no extension is supported.",
            Self::Type => "The header of the token has a typ other than JWT or at+jwt.",
            Self::UnknownKey(_) => "The server has no key with the kid of the token.",
            Self::NoKey => "The server has no key for the algorithm of the token.",
            Self::KeyIdNeeded => "Several keys fit the token: name one of them by kid.",
            Self::Signature => "The signature of the token is wrong.",
            Self::NoExpiry => "The token has no exp: a token needs a time when it expires.",
            Self::Expired => "The token has expired: get a new one.",
            Self::TooLongLived => {
                "The token lives longer than this server accepts: let exp be earlier."
            }
            Self::NotYetValid => {
                "The token is not valid yet: nbf or iat lies in the future. Compare the clocks."
            }
            Self::Issuer => "The claim iss of the token does not name an issuer that is accepted.",
            Self::Audience => "The claim aud of the token does not name this server.",
            Self::DuplicateClaim => "Two claims of the token have the same name.",
            Self::Revoked => "The token was revoked: get a new one.",
            Self::Scope => "The token does not allow this id.",
        }
    }
}
