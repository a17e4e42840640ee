//! Credentials of clients: none, tokens from a list, or a token signed here for each client.
//!
//! Secrets must never be printed: `Debug` hides them.

use std::fmt;
use std::io::Write as _;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use machine::failure::{Failure, Outcome};

/// Minimum key length of HS256 in bytes (RFC 7518, section 3.2).
pub const SECRET_BYTES_MIN: usize = 32;

/// JOSE header of the tokens signed here.
const HEADER: &[u8] = br#"{"alg":"HS256","typ":"JWT"}"#;

/// Credentials that clients send.
#[derive(Clone, Default)]
pub enum Credentials {
    /// No credentials.
    #[default]
    None,
    /// A token for each client; a list that is shorter than the clients repeats. Never empty.
    Tokens(Vec<String>),
    /// A token signed for each client.
    Signed(Box<TokenSigner>),
}

/// Signer of JSON web tokens with HS256 (RFC 7519). The client's number is the subject.
#[derive(Clone)]
pub struct TokenSigner {
    key: hmac::Key,
    claims: Map<String, Value>,
}

impl Credentials {
    /// Parses the tokens in `text`, one a line.
    ///
    /// # Errors
    ///
    /// When there is no token, or one has spaces or non-ASCII characters. The error names the line.
    pub fn list(text: &str) -> Outcome<Self> {
        let mut tokens = Vec::new();
        for (line, token) in (1..).zip(text.lines().map(str::trim)) {
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(Failure::new(format!(
                    "line {line} is not a token: it has spaces or characters that are not ASCII"
                )));
            }
            tokens.extend((!token.is_empty()).then(|| token.to_owned()));
        }
        if tokens.is_empty() {
            return Err(Failure::new("there is no token: write one in each line"));
        }
        Ok(Self::Tokens(tokens))
    }

    /// Appends the `Authorization` header of client `ordinal`, whose number is `number`, if any.
    pub(super) fn write_field(&self, ordinal: u32, number: u32, out: &mut Vec<u8>) {
        match self {
            Self::None => {}
            Self::Tokens(tokens) => {
                let token = &tokens[ordinal as usize % tokens.len()];
                write!(out, "Authorization: Bearer {token}\r\n").expect("a Vec takes every byte");
            }
            Self::Signed(signer) => {
                let token = signer.sign(number);
                write!(out, "Authorization: Bearer {token}\r\n").expect("a Vec takes every byte");
            }
        }
    }
}

impl TokenSigner {
    /// Creates a signer. If `secret` is text, white space around it is ignored. Each token has
    /// `claims`, in which `sub` is replaced by the client's number.
    ///
    /// # Errors
    ///
    /// When the secret is shorter than [`SECRET_BYTES_MIN`], or `claims` have no `exp`.
    pub fn new(secret: &[u8], claims: Map<String, Value>) -> Outcome<Self> {
        let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        let secret = match secret.iter().all(is_text) {
            true => secret.trim_ascii(),
            false => secret,
        };
        if secret.len() < SECRET_BYTES_MIN {
            return Err(Failure::new(format!(
                "the secret has {} bytes, but HS256 needs {SECRET_BYTES_MIN} or more",
                secret.len()
            )));
        }
        if !claims.contains_key("exp") {
            return Err(Failure::new(
                "the claims have no `exp`: add the time at which tokens expire",
            ));
        }
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            claims,
        })
    }

    /// Signs a token for the client with this number.
    pub fn sign(&self, number: u32) -> String {
        let mut claims = self.claims.clone();
        claims.insert("sub".to_owned(), number.to_string().into());
        let mut token = URL_SAFE_NO_PAD.encode(HEADER);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(Value::Object(claims).to_string(), &mut token);
        let signature = hmac::sign(&self.key, token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("None"),
            Self::Tokens(tokens) => write!(out, "Tokens({} of them)", tokens.len()),
            Self::Signed(signer) => signer.fmt(out),
        }
    }
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("TokenSigner(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Map<String, Value> {
        Map::from_iter([("exp".to_owned(), 4_000_000_000_u64.into())])
    }

    fn field(credentials: &Credentials, ordinal: u32) -> String {
        let mut out = Vec::new();
        credentials.write_field(ordinal, ordinal + 1, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_signature_matches_the_example_of_rfc_7515() {
        // Appendix A.1: its key and text must give its signature.
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0\
                   iPS4hcgUuTwjAzZr1Z9CAow";
        let text = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiO\
                    jEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let secret = URL_SAFE_NO_PAD.decode(key).unwrap();
        let signer = TokenSigner::new(&secret, claims()).unwrap();
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&signer.key, text.as_bytes()));
        assert_eq!(signature, "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    }

    #[test]
    fn each_client_has_its_own_token() {
        let signer = TokenSigner::new(&[7; 32], claims()).unwrap();
        let token = signer.sign(42);
        let parts: Vec<&str> = token.split('.').collect();
        let claims: Value =
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        assert_eq!(
            claims,
            serde_json::json!({"exp": 4_000_000_000_u64, "sub": "42"})
        );
        let credentials = Credentials::Signed(Box::new(signer));
        assert_ne!(field(&credentials, 0), field(&credentials, 1));
        assert!(!format!("{credentials:?}").contains('7'));
    }

    #[test]
    fn a_short_list_of_tokens_repeats() {
        let credentials = Credentials::list("a.b\n\n c.d \n").unwrap();
        assert_eq!(
            [0, 1, 2].map(|ordinal| field(&credentials, ordinal)),
            ["a.b", "c.d", "a.b"].map(|token| format!("Authorization: Bearer {token}\r\n"))
        );
        assert_eq!(format!("{credentials:?}"), "Tokens(2 of them)");
        assert_eq!(field(&Credentials::None, 0), "");
        let error = |text| Credentials::list(text).unwrap_err().to_string();
        assert!(error("good\nnot good").contains("line 2"));
        assert!(error(" \n").contains("no token"));
    }

    #[test]
    fn a_secret_that_is_too_short_is_refused() {
        assert!(TokenSigner::new(&[7; 31], claims()).is_err());
        assert!(TokenSigner::new(&[7; 32], Map::new()).is_err());
    }
}
