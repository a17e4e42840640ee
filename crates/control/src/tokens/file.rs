//! The file of tokens, in TOML.
//!
//! ```toml
//! [[token]]
//! name = "backend"
//! secret = "6f1c7a9be2d04f3a8c5d"    # or sha256 = "…", the digest of the secret in hexadecimal
//! rights = ["publish", "graph"]      # publish, graph, sessions, metrics, admin
//! prefixes = ["chat:", "news:"]      # optional: it may only name ids that begin with one of these
//! ```
//!
//! Must never quote a line of the file in an error: it may hold a secret.

use std::collections::BTreeSet;
use std::sync::Arc;

use graph::ID_BYTES_MAX;
use serde::Deserialize;

use super::{LOCAL, Right, Token, Tokens, digest_of_secret};
use crate::error::TokensError;
use crate::limits::{TOKEN_NAME_BYTES_MAX, TOKEN_PREFIXES_MAX};
use crate::tokens::Digest;

/// Names with a meaning of their own.
const RESERVED: [&str; 2] = [Tokens::SINGLE, LOCAL];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    secret: Option<String>,
    sha256: Option<String>,
    rights: Vec<String>,
    #[serde(default)]
    prefixes: Vec<String>,
}

impl Tokens {
    /// Parses the file of tokens.
    ///
    /// # Errors
    ///
    /// When the text is not TOML of that form, or a token has no name, no valid secret or no right.
    pub fn parse(text: &str) -> Result<Self, TokensError> {
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            TokensError::new(&format!("line {line}"), error.message())
        })?;
        if file.token.is_empty() {
            return Err(TokensError::new(
                "line 1",
                "the file has no [[token]]; add one with name, secret and rights",
            ));
        }
        let mut tokens = Self::default();
        for (number, entry) in (1..).zip(file.token) {
            let about = match is_name(&entry.name) {
                true => entry.name.clone(),
                false => format!("number {number}"),
            };
            let token = entry.token().map_err(|why| TokensError::new(&about, why))?;
            tokens.add(Arc::new(token))?;
        }
        Ok(tokens)
    }
}

impl Entry {
    fn token(self) -> Result<Token, String> {
        if !is_name(&self.name) {
            return Err(format!(
                "its name must have 1 to {TOKEN_NAME_BYTES_MAX} letters, digits, `-`, `_` or `.`"
            ));
        }
        if RESERVED.contains(&&*self.name) {
            return Err("the name has another meaning; choose another one".to_owned());
        }
        let digest = match (&self.secret, &self.sha256) {
            (Some(secret), None) => digest_of_secret(secret)?,
            (None, Some(hex)) => digest_of_hex(hex)
                .ok_or("sha256 must be 64 hexadecimal digits: `printf %s TOKEN | sha256sum`")?,
            _ => return Err("it needs either secret or sha256".to_owned()),
        };
        if self.rights.is_empty() {
            return Err(format!("it has no rights; the rights are {}", names()));
        }
        let rights = self.rights.iter().map(|name| {
            let right = Right::ALL.into_iter().find(|right| right.name() == name);
            right.ok_or_else(|| format!("`{name}` is no right; the rights are {}", names()))
        });
        let rights: BTreeSet<Right> = rights.collect::<Result<_, _>>()?;
        if self.prefixes.len() > TOKEN_PREFIXES_MAX {
            return Err(format!("it has more than {TOKEN_PREFIXES_MAX} prefixes"));
        }
        for prefix in &self.prefixes {
            if !(1..=ID_BYTES_MAX).contains(&prefix.len()) {
                return Err(format!(
                    "a prefix must have 1 to {ID_BYTES_MAX} bytes; leave prefixes out to allow all \
                     ids"
                ));
            }
        }
        Ok(Token {
            name: self.name.into(),
            digest,
            rights,
            prefixes: self.prefixes.into_iter().map(Into::into).collect(),
        })
    }
}

fn is_name(name: &str) -> bool {
    (1..=TOKEN_NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn names() -> String {
    Right::ALL.map(Right::name).join(", ")
}

fn digest_of_hex(hex: &str) -> Option<Digest> {
    let mut digest = Digest::default();
    if hex.len() != 2 * digest.len() || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}
