//! Settings of a policy.

use crate::network::Network;

/// Seconds by which the clock of an issuer may be ahead, for `nbf` and `iat`. Not for `exp`: a
/// session ends at that time, so a token that was accepted later would open a session that is
/// closed at once.
pub const LEEWAY_SECONDS: u64 = 30;

/// Default of [`PolicySettings::max_lifetime_seconds`]: 31 days, as a token for a month has.
pub const MAX_LIFETIME_SECONDS: u64 = 31 * 24 * 3600;

/// Settings of a policy, without the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySettings {
    /// Accepted values of `iss`; if empty, it is not checked.
    pub issuers: Vec<String>,
    /// Names of this server, of which `aud` must contain one. If empty, tokens with `aud` are
    /// refused, because they are meant for another server (RFC 7519, section 4.1.3).
    pub audiences: Vec<String>,
    /// Longest time from `iat` to `exp` in seconds. Revocations are remembered for this time.
    pub max_lifetime_seconds: u64,
    /// Name of the cookie that may contain a token.
    pub cookie: Option<String>,
    /// Whether the query may contain a token.
    pub query: bool,
    /// Whether tickets are accepted.
    pub tickets: bool,
    /// Name of the header field in which a trusted proxy names the client.
    pub identity_header: Option<String>,
    /// Networks of trusted proxies.
    pub trusted_proxies: Vec<Network>,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            issuers: Vec::new(),
            audiences: Vec::new(),
            max_lifetime_seconds: MAX_LIFETIME_SECONDS,
            cookie: None,
            query: false,
            tickets: false,
            identity_header: None,
            trusted_proxies: Vec::new(),
        }
    }
}
