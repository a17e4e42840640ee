//! JSON Web Tokens as text: parts, header, bounds (RFC 7515, section 7.1).
//!
//! Owns what of a header counts: `alg`, `kid`, `typ`, `crit`. Keys and addresses in it (`jwk`,
//! `jku`, `x5c`, `x5u`) are never looked at.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::algorithm::Algorithm;
use crate::error::TokenError;
use crate::json::{Object, text};

/// Longest `kid`, in bytes: a thumbprint has 43, an address of a key about a hundred.
pub(crate) const KEY_ID_BYTES_MAX: usize = 256;

/// Values of `typ` that are accepted, without `application/` and in small letters: a token of no
/// particular kind (RFC 7519, section 5.1), or an access token (RFC 9068, section 2.1).
const TYPES: &[&str] = &["jwt", "at+jwt"];

/// Token whose header was read. Nothing in it is verified yet.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    /// The bytes that are signed: header, dot, payload, as they were sent.
    pub(crate) message: &'a [u8],
    pub(crate) payload: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

impl<'a> Token<'a> {
    /// Parses the compact serialization. The caller has bounded the length.
    pub(crate) fn parse(token: &'a str) -> Result<Self, TokenError> {
        let mut parts = token.split('.');
        let (Some(header), Some(payload), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::Malformed(
                "The token is not a signed JSON Web Token: it needs three parts with dots between.",
            ));
        };
        let message = &token.as_bytes()[..header.len() + 1 + payload.len()];
        let header = decode(header)?;
        let header = Object::parse(&header).map_err(|_| {
            TokenError::Malformed(
                "The header of the token is not a JSON object with each name once.",
            )
        })?;
        if header.get("crit").is_some() {
            return Err(TokenError::Critical);
        }
        let field = |name| match header.get(name) {
            None => Ok(None),
            Some(value) => text(value).map(Some).ok_or(TokenError::Malformed(
                "One of alg, kid and typ in the header of the token is not a string.",
            )),
        };
        let algorithm = field("alg")?.and_then(|name| Algorithm::of_name(&name));
        let algorithm = algorithm.ok_or(TokenError::Algorithm)?;
        if field("typ")?.is_some_and(|name| !is_accepted_type(&name)) {
            return Err(TokenError::Type);
        }
        let key_id = field("kid")?;
        if key_id
            .as_ref()
            .is_some_and(|id| id.len() > KEY_ID_BYTES_MAX)
        {
            return Err(TokenError::Malformed(
                "The kid of the token is longer than 256 bytes.",
            ));
        }
        Ok(Self {
            algorithm,
            key_id,
            message,
            payload: decode(payload)?,
            signature: decode(signature)?,
        })
    }
}

fn is_accepted_type(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("application/").unwrap_or(&name);
    TYPES.contains(&name)
}

/// Decodes one part. Each byte string has one spelling only: padding and loose last bits are
/// refused.
fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    let decoded = URL_SAFE_NO_PAD.decode(part);
    decoded.map_err(|_| TokenError::Malformed("A part of the token is not base64url (RFC 7515)."))
}
