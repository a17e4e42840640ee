//! The cookie: the shared secret of a cluster, and the proof of knowing it.

use std::fmt;

/// Longest cookie in bytes. Erlang keeps it as an atom.
const COOKIE_BYTES_MAX: usize = 255;

/// A cookie. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Cookie(Box<[u8]>);

impl Cookie {
    /// Parses the content of a cookie file. White space around the cookie is ignored.
    ///
    /// # Errors
    ///
    /// A sentence that says which cookies are valid.
    pub fn parse(content: &str) -> Result<Self, String> {
        let cookie = content.trim();
        if cookie.is_empty() || cookie.len() > COOKIE_BYTES_MAX {
            return Err(format!(
                "a cookie has 1 to {COOKIE_BYTES_MAX} bytes, but this one has {}",
                cookie.len()
            ));
        }
        if !cookie.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "a cookie has only ASCII letters, digits and punctuation, and no white space"
                    .to_owned(),
            );
        }
        Ok(Self(cookie.as_bytes().into()))
    }

    /// Computes the answer to `challenge`, which proves that this node knows the cookie.
    pub(crate) fn digest(&self, challenge: u32) -> [u8; 16] {
        let mut secret = self.0.to_vec();
        secret.extend(challenge.to_string().as_bytes());
        md5::compute(secret).0
    }

    /// Whether `digest` answers `challenge`. Takes the same time for every wrong digest.
    pub(crate) fn is_proved(&self, challenge: u32, digest: &[u8]) -> bool {
        let own = self.digest(challenge);
        let differences = own.iter().zip(digest).fold(0, |sum, (a, b)| sum | (a ^ b));
        digest.len() == own.len() && differences == 0
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie(…)")
    }
}
