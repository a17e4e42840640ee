//! The cookie: the secret that all nodes of a cluster share, and the proof of knowing it.

use std::fmt;

/// Bytes of a cookie at most: it is an atom to Erlang.
const COOKIE_BYTES_MAX: usize = 255;

/// The cookie. Its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Cookie(Box<[u8]>);

impl Cookie {
    /// Takes the content of a cookie file; blanks and line ends around it do not count.
    ///
    /// # Errors
    ///
    /// What would have been right.
    pub fn parse(content: &str) -> Result<Self, String> {
        let cookie = content.trim();
        if cookie.is_empty() || cookie.len() > COOKIE_BYTES_MAX {
            return Err(format!(
                "a cookie has 1 to {COOKIE_BYTES_MAX} bytes, and this one has {}",
                cookie.len()
            ));
        }
        if !cookie.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "a cookie has letters, digits and punctuation of ASCII only, and no blanks"
                    .to_owned(),
            );
        }
        Ok(Self(cookie.as_bytes().into()))
    }

    /// What proves to whoever made `challenge` that the cookie is known here.
    pub(crate) fn digest(&self, challenge: u32) -> [u8; 16] {
        let mut secret = self.0.to_vec();
        secret.extend(challenge.to_string().as_bytes());
        md5::compute(secret).0
    }

    /// Whether `digest` proves knowledge of the cookie. Takes as long for any wrong one.
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
