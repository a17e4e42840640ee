//! Secrets and signatures: the symmetric scheme of Standard Webhooks.
//!
//! Must never show a secret.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::limits::SECRETS_MAX;

/// Prefix of secrets.
const PREFIX: &str = "whsec_";

/// Shortest and longest secret, in bytes: the bounds of Standard Webhooks.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// How an operator gets a secret.
const MAKE: &str = "make one with: echo whsec_$(openssl rand -base64 32)";

/// A secret that is shared with the receiver.
#[derive(Clone)]
pub struct Secret {
    key: hmac::Key,
    /// The text, to compare secrets.
    text: Box<str>,
}

/// Reason why a text is not a secret, or a file has no valid secrets. Its `Display` form is a
/// sentence for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// There is no secret.
    #[error("it has no secret; {MAKE}")]
    None,
    /// There are too many secrets.
    #[error("it has more than {SECRETS_MAX} secrets; one is enough")]
    TooMany,
    /// A secret is malformed.
    #[error("a secret is {PREFIX} and base64; {MAKE}")]
    Form,
    /// A secret is too short or too long. Has its length in bytes.
    #[error(
        "a secret has {0} bytes, and must have {least} to {most}; {MAKE}",
        least = SECRET_BYTES.start(),
        most = SECRET_BYTES.end()
    )]
    Length(usize),
}

impl Secret {
    /// Parses the secrets in a file, one on each line. Empty lines and lines that begin with `#`
    /// are ignored.
    ///
    /// # Errors
    ///
    /// When there is none, when there are too many, or when one is malformed.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, SecretError> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let secrets = lines.map(str::parse).collect::<Result<Vec<Self>, _>>()?;
        match secrets.len() {
            0 => Err(SecretError::None),
            count if count > SECRETS_MAX => Err(SecretError::TooMany),
            _ => Ok(secrets),
        }
    }

    fn sign(&self, message: &[&[u8]]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        for piece in message {
            context.update(piece);
        }
        context.sign()
    }
}

/// Returns the value of `webhook-signature`: a signature by each secret, so that a receiver that
/// knows one of them accepts the request while a secret is replaced.
pub(crate) fn signatures(secrets: &[Secret], id: &str, timestamp: u64, body: &[u8]) -> String {
    let head = format!("{id}.{timestamp}.");
    let mut field = String::new();
    for secret in secrets {
        if !field.is_empty() {
            field.push(' ');
        }
        let tag = secret.sign(&[head.as_bytes(), body]);
        let _ = write!(field, "v1,{}", STANDARD.encode(tag.as_ref()));
    }
    field
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let encoded = text.strip_prefix(PREFIX).ok_or(SecretError::Form)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| SecretError::Form)?;
        if !SECRET_BYTES.contains(&bytes.len()) {
            return Err(SecretError::Length(bytes.len()));
        }
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &bytes),
            text: text.into(),
        })
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the libraries of the specification.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_signature_is_that_of_the_specification() {
        let secrets = Secret::parse_all(SECRET).unwrap();
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let field = signatures(&secrets, id, 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(field, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn each_secret_makes_a_signature() {
        let other = format!("whsec_{}", STANDARD.encode([7; 24]));
        let text = format!("# the new one\n{other}\n\n  {SECRET} \n");
        let both = Secret::parse_all(&text).unwrap();
        let field = signatures(&both, "msg_1", 1, b"[]");
        let alone = signatures(&both[1..], "msg_1", 1, b"[]");
        assert_eq!(field.split(' ').count(), 2);
        assert!(field.ends_with(&alone));
        assert_ne!(field.split(' ').next(), field.split(' ').nth(1));
    }

    #[test]
    fn invalid_secrets_are_refused_and_never_shown() {
        assert_eq!(Secret::parse_all("\n# none\n"), Err(SecretError::None));
        assert_eq!(Secret::parse_all("secret"), Err(SecretError::Form));
        assert_eq!(Secret::parse_all("whsec_!"), Err(SecretError::Form));
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        assert_eq!(Secret::parse_all(&short), Err(SecretError::Length(23)));
        let many = format!("{SECRET}\n").repeat(SECRETS_MAX + 1);
        assert_eq!(Secret::parse_all(&many), Err(SecretError::TooMany));
        let shown = format!("{:?}", Secret::parse_all(SECRET).unwrap());
        assert!(!shown.contains("MfKQ"), "{shown}");
    }
}
