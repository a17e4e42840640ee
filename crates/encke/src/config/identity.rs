//! Settings of identity: credentials of clients, and the keys with which they are verified.

use std::path::Path;
use std::sync::Arc;

use ::webhook::outside::{OutsideUrl, UrlErrors};
use auth::{KeyError, KeySet, Network, Policy, PolicySettings};
use cli::files::{read_private, read_public};
use control::JWKS_URLS_MAX;

use super::reader::{Reader, known};
use super::values::{nonempty, switch, token};

/// Settings of tokens that have no effect without keys.
const NEEDING_KEYS: [&str; 5] = [
    "jwt-issuer",
    "jwt-audience",
    "jwt-cookie",
    "jwt-query",
    "client-publish",
];

/// Settings of identity.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdentityConfig {
    /// The policy, with an empty key set for each address.
    pub(crate) policy: Policy,
    /// Addresses of key sets.
    pub(crate) jwks_urls: Vec<OutsideUrl>,
}

impl Reader<'_> {
    /// Reads the settings of identity, and the files of keys.
    pub(super) fn identity(&mut self) -> IdentityConfig {
        let mut policy = Policy::new(PolicySettings {
            issuers: self.list("jwt-issuer", nonempty),
            audiences: self.list("jwt-audience", nonempty),
            cookie: self.find("jwt-cookie", token),
            query: self.get("jwt-query", switch),
            tickets: self.get("tickets", switch),
            identity_header: self.find("identity-header", token),
            trusted_proxies: self.list("trusted-proxy", network),
            ..PolicySettings::default()
        });
        let secrets = self.list("jwt-secret-file", |path| {
            keys(path, read_private, KeySet::from_secret)
        });
        let public = self.list("jwt-key-file", |path| {
            keys(path, read_public, KeySet::from_pem)
        });
        for (path, keys) in secrets.into_iter().chain(public) {
            policy = policy.with_keys(&path, Arc::new(keys));
        }
        let jwks_urls = self.list("jwks-url", |text| {
            OutsideUrl::parse(text, &UrlErrors::OF_KEY_SETS).map_err(str::to_owned)
        });
        if jwks_urls.len() > JWKS_URLS_MAX {
            self.problem(format!(
                "there are {} addresses of key sets (--jwks-url); at most {JWKS_URLS_MAX} are \
                 possible",
                jwks_urls.len()
            ));
        }
        for url in &jwks_urls {
            policy = policy.with_keys(&url.as_written(), Arc::default());
        }
        self.check_identity(&policy);
        IdentityConfig { policy, jwks_urls }
    }

    /// Checks that PROXY headers can come from any proxy, if they are expected.
    pub(super) fn check_proxy_protocol(&mut self, is_on: bool, policy: &Policy) {
        if is_on && policy.settings().trusted_proxies.is_empty() && self.problems.is_empty() {
            self.problem(
                "--proxy-protocol needs --trusted-proxy, the addresses of the proxies that send \
                 PROXY headers; from all others such a header is refused",
            );
        }
    }

    /// Notes settings that would have no effect, because an operator might rely on them.
    fn check_identity(&mut self, policy: &Policy) {
        // After problems, the policy may lack settings that are there.
        if !self.problems.is_empty() {
            return;
        }
        let settings = policy.settings();
        if settings.identity_header.is_some() && settings.trusted_proxies.is_empty() {
            self.problem(
                "--identity-header needs --trusted-proxy, the addresses of the proxies that may \
                 send it; from all others the header would be a claim of the client itself",
            );
        }
        if policy.accepts_tokens() {
            return;
        }
        for name in NEEDING_KEYS {
            let is_set = match name {
                "jwt-query" => settings.query,
                "client-publish" => self.get(name, switch),
                _ => self.layers.get(known(name)).is_some(),
            };
            if is_set {
                self.problem(format!(
                    "--{name} needs keys to check tokens with; set --jwt-secret-file, \
                     --jwt-key-file or --jwks-url"
                ));
            }
        }
    }
}

fn network(text: &str) -> Result<Network, String> {
    text.parse::<Network>().map_err(|error| error.to_string())
}

/// Reads a file of keys.
fn keys(
    path: &str,
    read: fn(&Path) -> Result<Vec<u8>, String>,
    parse: fn(&[u8]) -> Result<KeySet, KeyError>,
) -> Result<(String, KeySet), String> {
    let bytes = read(Path::new(path))?;
    let keys = parse(&bytes).map_err(|error| error.to_string())?;
    Ok((path.to_owned(), keys))
}
