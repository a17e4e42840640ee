//! URLs of receivers.

use std::fmt;
use std::str::FromStr;

use ureq::http::Uri;
use wire::host::Host;

/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 2048;

/// URL of a receiver: `https`, or `http` on this machine. `Display` omits the query, which may
/// contain a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl(Uri);

impl WebhookUrl {
    pub(crate) const fn uri(&self) -> &Uri {
        &self.0
    }

    /// Returns whether requests are sent without TLS, which is allowed to this machine only.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.scheme_str() == Some("http")
    }
}

impl FromStr for WebhookUrl {
    type Err = &'static str;

    /// Parses a URL. The error is a sentence for the operator.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "it is not a URL like https://backend.example/encke";
        if text.len() > URL_BYTES_MAX || text.contains('#') {
            return Err(FORM);
        }
        let uri: Uri = text.parse().map_err(|_| FORM)?;
        let authority = uri.authority().ok_or(FORM)?.as_str();
        if authority.contains('@') {
            return Err("it has a user name or a password; requests are signed, leave them out");
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(FORM);
        }
        match uri.scheme_str() {
            Some("https") => Ok(Self(uri)),
            Some("http") if Host::of(authority).is_loopback() => Ok(Self(uri)),
            Some("http") => Err(
                "it is http, so that others on the network could read who is connected; use https, \
                 or http to this machine",
            ),
            _ => Err(FORM),
        }
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.scheme_str().unwrap_or_default();
        let authority = self.0.authority().map_or("", |it| it.as_str());
        write!(f, "{scheme}://{authority}{}", self.0.path())
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_encrypted_or_of_this_machine_and_its_query_is_not_shown() {
        let shown = |text: &str| text.parse::<WebhookUrl>().map(|url| url.to_string());
        assert_eq!(
            shown("https://a.example/x?key=secret"),
            Ok("https://a.example/x".to_owned())
        );
        assert!(shown("http://127.0.0.1:9000/x").is_ok());
        assert!(shown("http://localhost/").is_ok());
        for wrong in [
            "http://a.example/",
            "ftp://a.example/",
            "https://user:pass@a.example/",
            "https:///x",
            "a.example",
            "",
            "https://a.example/#x",
        ] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}
