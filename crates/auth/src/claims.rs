//! Claims of a token (RFC 7519, section 4.1), and their checks.
//!
//! Owns the claims `encke.ids` and `encke.publish`. Must never parse a payload whose signature was
//! not verified.

use crate::error::TokenError;
use crate::identity::Identity;
use crate::json::{Object, ObjectError, text};
use crate::policy_settings::{LEEWAY_SECONDS, PolicySettings};
use crate::scope::{ENTRIES_MAX, Scope};
use crate::time::UnixSeconds;

/// Longest id, in bytes.
const ID_BYTES_MAX: usize = 128;

/// Largest integer that is an id: 2^53 - 1.
const ID_INTEGER_MAX: u64 = (1 << 53) - 1;

/// Longest `jti`, in bytes.
const TOKEN_ID_BYTES_MAX: usize = crate::revocations::TOKEN_ID_BYTES_MAX;

/// Largest `exp`: in the year 2106. A larger number is most often a time in milliseconds.
const EXPIRY_MAX: UnixSeconds = UnixSeconds(u32::MAX as u64);

/// The claims that are used. All others are ignored.
#[derive(Debug)]
pub(crate) struct Claims {
    subject: Option<String>,
    issuer: Option<String>,
    audiences: Option<Vec<String>>,
    expires: UnixSeconds,
    not_before: Option<UnixSeconds>,
    issued: Option<UnixSeconds>,
    token_id: Option<String>,
    scope: Scope,
    publish: Scope,
}

impl Claims {
    /// Parses the payload of a token whose signature is valid.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, TokenError> {
        let claims = Object::parse(payload).map_err(|error| match error {
            ObjectError::Duplicate => TokenError::DuplicateClaim,
            ObjectError::Malformed => {
                TokenError::Malformed("The payload of the token is not a JSON object of claims.")
            }
        })?;
        let expires = claims.get("exp").ok_or(TokenError::NoExpiry)?;
        let expires = seconds(expires, Round::Down).ok_or(TokenError::Claim(
            "The claim exp of the token is not a number of seconds since 1970.",
        ))?;
        if expires > EXPIRY_MAX {
            return Err(TokenError::Claim(
                "The claim exp of the token lies beyond the year 2106: it is in seconds, not \
                 milliseconds.",
            ));
        }
        let time = |name, round, error| match claims.get(name) {
            None => Ok(None),
            Some(value) => seconds(value, round)
                .map(Some)
                .ok_or(TokenError::Claim(error)),
        };
        Ok(Self {
            subject: subject(claims.get("sub"))?,
            issuer: match claims.get("iss") {
                None => None,
                Some(value) => Some(text(value).ok_or(TokenError::Issuer)?),
            },
            audiences: match claims.get("aud") {
                None => None,
                Some(value) => Some(audiences(value).ok_or(TokenError::Audience)?),
            },
            expires,
            not_before: time(
                "nbf",
                Round::Up,
                "The claim nbf of the token is not a number of seconds since 1970.",
            )?,
            issued: time(
                "iat",
                Round::Down,
                "The claim iat of the token is not a number of seconds since 1970.",
            )?,
            token_id: token_id(claims.get("jti"))?,
            scope: scope(&claims, &IDS)?,
            publish: scope(&claims, &PUBLISH)?,
        })
    }

    /// Checks the claims against the policy, and returns the identity.
    pub(crate) fn into_identity(
        self,
        settings: &PolicySettings,
        now: UnixSeconds,
    ) -> Result<Identity, TokenError> {
        if self.expires <= now {
            return Err(TokenError::Expired);
        }
        let soon = now.plus(LEEWAY_SECONDS);
        if self.not_before.is_some_and(|time| time > soon)
            || self.issued.is_some_and(|time| time > soon)
        {
            return Err(TokenError::NotYetValid);
        }
        let lifetime = self.expires.seconds_since(self.issued.unwrap_or(now));
        if lifetime > settings.max_lifetime_seconds {
            return Err(TokenError::TooLongLived);
        }
        if !settings.issuers.is_empty() {
            let issuer = self.issuer.as_ref().ok_or(TokenError::Issuer)?;
            if !settings.issuers.contains(issuer) {
                return Err(TokenError::Issuer);
            }
        }
        let named = match &self.audiences {
            Some(audiences) => audiences.iter().any(|it| settings.audiences.contains(it)),
            None => settings.audiences.is_empty(),
        };
        if !named {
            return Err(TokenError::Audience);
        }
        let subject = self.subject.map(String::into_boxed_str);
        let scope = match &subject {
            Some(subject) => self.scope.with_id(subject),
            None => self.scope,
        };
        Ok(Identity {
            subject,
            scope,
            publish: self.publish,
            expires: Some(self.expires),
            issued: self.issued,
            token_id: self.token_id.map(String::into_boxed_str),
        })
    }
}

#[derive(Debug, Clone, Copy)]
enum Round {
    Down,
    Up,
}

/// Parses a `NumericDate`: a number, which may have a fraction. One beyond the range becomes the
/// last time.
fn seconds(json: &str, round: Round) -> Option<UnixSeconds> {
    if let Ok(seconds) = json.parse() {
        return Some(UnixSeconds(seconds));
    }
    let seconds: f64 = serde_json::from_str(json).ok()?;
    let seconds = match round {
        Round::Down => seconds.floor(),
        Round::Up => seconds.ceil(),
    };
    // The conversion saturates.
    (seconds >= 0.0).then_some(UnixSeconds(seconds as u64))
}

/// Parses an id in JSON: a string, or an integer.
fn id(json: &str) -> Option<String> {
    let id = match json.as_bytes().first() {
        Some(b'"') => text(json)?,
        _ => {
            let integer: u64 = serde_json::from_str(json).ok()?;
            (integer <= ID_INTEGER_MAX).then(|| integer.to_string())?
        }
    };
    (id.len() <= ID_BYTES_MAX && !id.contains(char::is_control)).then_some(id)
}

fn subject(json: Option<&str>) -> Result<Option<String>, TokenError> {
    let Some(json) = json else {
        return Ok(None);
    };
    let subject = id(json).ok_or(TokenError::Claim(
        "The claim sub of the token is not an id: a string of at most 128 bytes, or an integer.",
    ))?;
    // An empty subject counts as none.
    Ok(Some(subject).filter(|subject| !subject.is_empty()))
}

fn audiences(json: &str) -> Option<Vec<String>> {
    match json.as_bytes().first() {
        Some(b'"') => text(json).map(|audience| vec![audience]),
        _ => serde_json::from_str(json).ok(),
    }
}

fn token_id(json: Option<&str>) -> Result<Option<String>, TokenError> {
    let Some(json) = json else {
        return Ok(None);
    };
    let id = text(json).filter(|id| !id.is_empty() && id.len() <= TOKEN_ID_BYTES_MAX);
    match id {
        Some(id) => Ok(Some(id)),
        None => Err(TokenError::Claim(
            "The claim jti of the token is not a string of 1 to 256 bytes.",
        )),
    }
}

/// A claim that is a list of ids: a member of the claim `encke`, or a claim whose name has both
/// parts, for issuers that cannot make objects.
struct ListClaim {
    member: &'static str,
    name: &'static str,
    /// Error if it is not a list of ids.
    form: &'static str,
    /// Error if a token has it in both forms.
    twice: &'static str,
}

/// Ids that a client may read.
const IDS: ListClaim = ListClaim {
    member: "ids",
    name: "encke.ids",
    form: "The claim encke.ids of the token is not a list of at most 1024 ids, each a string of 1 \
           to 128 bytes or an integer.",
    twice: "The token has encke.ids twice: as a name, and as ids in encke.",
};

/// Ids that a client may publish about.
const PUBLISH: ListClaim = ListClaim {
    member: "publish",
    name: "encke.publish",
    form: "The claim encke.publish of the token is not a list of at most 1024 ids, each a string \
           of 1 to 128 bytes or an integer.",
    twice: "The token has encke.publish twice: as a name, and as publish in encke.",
};

/// Returns the scope of a claim; an empty one if the claim is absent.
fn scope(claims: &Object<'_>, claim: &ListClaim) -> Result<Scope, TokenError> {
    const OBJECT: TokenError =
        TokenError::Claim("The claim encke of the token is not an object with each name once.");
    let nested = match claims.get("encke") {
        Some(value) => Object::parse(value.as_bytes())
            .map_err(|_| OBJECT)?
            .get(claim.member),
        None => None,
    };
    let list = match (nested, claims.get(claim.name)) {
        (Some(_), Some(_)) => return Err(TokenError::Claim(claim.twice)),
        (Some(list), None) | (None, Some(list)) => list,
        (None, None) => return Ok(Scope::default()),
    };
    let form = TokenError::Claim(claim.form);
    let Ok(list) = serde_json::from_str::<Vec<&serde_json::value::RawValue>>(list) else {
        return Err(form);
    };
    if list.len() > ENTRIES_MAX {
        return Err(form);
    }
    let entries: Option<Vec<String>> = list
        .iter()
        .map(|entry| id(entry.get()).filter(|entry| !entry.is_empty()))
        .collect();
    let Some(entries) = entries else {
        return Err(form);
    };
    Scope::new(entries.iter().map(String::as_str)).map_err(|_| form)
}
