//! Addresses of JWKS documents.

use std::fmt;
use std::str::FromStr;

use ureq::http::Uri;
use wire::host::Host;

/// Longest address, in bytes.
const URL_BYTES_MAX: usize = 2048;

/// Address of a JWKS document: `https`, or `http` on this machine. `Display` leaves the query out,
/// which may hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct JwksUrl(Uri);

impl JwksUrl {
    /// Returns the whole address, as the name of the source of keys.
    pub fn name(&self) -> String {
        self.0.to_string()
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }

    /// Returns whether the document comes without TLS, which is for this machine only.
    pub(super) fn is_plain(&self) -> bool {
        self.0.scheme_str() == Some("http")
    }
}

impl FromStr for JwksUrl {
    type Err = &'static str;

    /// Parses an address. The error is a sentence for the operator.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "it is not a URL like https://issuer.example/jwks.json";
        if text.len() > URL_BYTES_MAX || text.contains('#') {
            return Err(FORM);
        }
        let uri: Uri = text.parse().map_err(|_| FORM)?;
        let authority = uri.authority().ok_or(FORM)?.as_str();
        if authority.contains('@') {
            return Err("it has a user name or a password, which would be logged; leave them out");
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(FORM);
        }
        match uri.scheme_str() {
            Some("https") => Ok(Self(uri)),
            Some("http") if Host::of(authority).is_loopback() => Ok(Self(uri)),
            Some("http") => Err(
                "it is http, where anyone on the way could put in a key of their own; use https",
            ),
            _ => Err(FORM),
        }
    }
}

impl fmt::Display for JwksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.scheme_str().unwrap_or_default();
        let authority = self.0.authority().map_or("", |it| it.as_str());
        write!(f, "{scheme}://{authority}{}", self.0.path())
    }
}

impl fmt::Debug for JwksUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
