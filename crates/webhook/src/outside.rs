//! URLs outside of this program, and bounded requests to them.
//!
//! A redirection is not followed and no proxy is used: the operator has named the address.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Error};
use wire::host::Host;

use crate::authorities::Authorities;
use crate::limits::LOG_INTERVAL;

/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 2048;

/// Sent with every request.
const USER_AGENT: &str = concat!("encke/", env!("CARGO_PKG_VERSION"));

/// URL of another program: `https`, or `http` on this machine. `Display` omits the query, which may
/// contain a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct OutsideUrl(Uri);

/// Sentences for the operator about URLs of one kind.
#[derive(Debug, Clone, Copy)]
pub struct UrlErrors {
    /// The text is not a URL.
    pub form: &'static str,
    /// It has a user name or a password.
    pub credentials: &'static str,
    /// It is `http`, to another machine.
    pub plain: &'static str,
}

impl UrlErrors {
    /// Of URLs of key sets.
    pub const OF_KEY_SETS: Self = Self {
        form: "it is not a URL like https://issuer.example/jwks.json",
        credentials: "it has a user name or a password, which would be logged; leave them out",
        plain: "it is http, where anyone on the way could put in a key of their own; use https",
    };

    /// Of URLs of receivers.
    pub const OF_RECEIVERS: Self = Self {
        form: "it is not a URL like https://backend.example/encke",
        credentials: "it has a user name or a password; requests are signed, leave them out",
        plain: "it is http, so that others on the network could read who is connected; use https, \
                or http to this machine",
    };
}

impl OutsideUrl {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// One of `errors`.
    pub fn parse(text: &str, errors: &UrlErrors) -> Result<Self, &'static str> {
        if text.len() > URL_BYTES_MAX || text.contains('#') {
            return Err(errors.form);
        }
        let uri: Uri = text.parse().map_err(|_| errors.form)?;
        let authority = uri.authority().ok_or(errors.form)?.as_str();
        if authority.contains('@') {
            return Err(errors.credentials);
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(errors.form);
        }
        match uri.scheme_str() {
            Some("https") => Ok(Self(uri)),
            Some("http") if Host::of(authority).is_loopback() => Ok(Self(uri)),
            Some("http") => Err(errors.plain),
            _ => Err(errors.form),
        }
    }

    /// Returns the whole URL, with its query.
    pub fn as_written(&self) -> String {
        self.0.to_string()
    }

    /// Returns the URL for a request.
    pub const fn uri(&self) -> &Uri {
        &self.0
    }

    /// Returns what makes requests to it, and keeps at most `idle_max` connections between them.
    /// The certificate must be issued by one of `authorities`, or by one of the system.
    pub fn agent(&self, authorities: Option<&Authorities>, idle_max: usize) -> Agent {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = authorities.map_or(RootCerts::PlatformVerifier, |authorities| {
            let certificates = authorities.certificates().iter();
            let certificates = certificates.map(|one| Certificate::from_der(one).to_owned());
            RootCerts::new_with_certs(&certificates.collect::<Vec<_>>())
        });
        let tls = TlsConfig::builder()
            .root_certs(roots)
            .unversioned_rustls_crypto_provider(provider);
        Agent::config_builder()
            .http_status_as_error(false)
            .https_only(self.0.scheme_str() != Some("http"))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .max_idle_connections(idle_max)
            .user_agent(USER_AGENT)
            .tls_config(tls.build())
            .build()
            .new_agent()
    }
}

impl fmt::Display for OutsideUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.scheme_str().unwrap_or_default();
        let authority = self.0.authority().map_or("", |it| it.as_str());
        write!(f, "{scheme}://{authority}{}", self.0.path())
    }
}

impl fmt::Debug for OutsideUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns whether a request failed because its time was over.
pub fn is_timeout(error: &Error) -> bool {
    match error {
        Error::Timeout(_) => true,
        Error::Io(error) => error.kind() == io::ErrorKind::TimedOut,
        _ => false,
    }
}

/// Failures that were logged: one is news when it begins or changes, and again each 10 minutes.
#[derive(Debug)]
pub struct LoggedFailures<E>(Option<(E, Instant)>);

impl<E> Default for LoggedFailures<E> {
    fn default() -> Self {
        Self(None)
    }
}

impl<E: Clone + PartialEq> LoggedFailures<E> {
    /// Notes a failure. Returns whether to log it.
    pub fn is_news(&mut self, failure: &E) -> bool {
        let is_news = self
            .0
            .as_ref()
            .is_none_or(|(logged, at)| logged != failure || at.elapsed() >= LOG_INTERVAL);
        if is_news {
            self.0 = Some((failure.clone(), Instant::now()));
        }
        is_news
    }

    /// Notes a success. Returns whether a failure was logged before it.
    pub fn end(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_encrypted_or_of_this_machine_and_its_query_is_not_shown() {
        let shown = |text: &str| {
            OutsideUrl::parse(text, &UrlErrors::OF_RECEIVERS).map(|url| url.to_string())
        };
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

    #[test]
    fn an_address_is_https_or_on_this_machine() {
        let parse = |text: &str| {
            OutsideUrl::parse(text, &UrlErrors::OF_KEY_SETS).map(|url| url.to_string())
        };
        for good in [
            "https://issuer.example/.well-known/jwks.json",
            "https://issuer.example:8443/jwks",
            "https://[2001:db8::1]/jwks",
            "http://127.0.0.1:8080/jwks",
            "http://localhost/jwks",
            "http://[::1]:80/jwks",
        ] {
            assert_eq!(parse(good).as_deref(), Ok(good));
        }
        let secret = parse("https://issuer.example/jwks?key=secret");
        assert_eq!(
            secret.as_deref(),
            Ok("https://issuer.example/jwks"),
            "the query is not shown"
        );
        for bad in [
            "",
            "/jwks.json",
            "issuer.example/jwks.json",
            "http://issuer.example/jwks",
            "http://localhost.issuer.example/jwks",
            "http://127.0.0.1.issuer.example/jwks",
            "http://10.0.0.1/jwks",
            "http://127.0.0.1@issuer.example/jwks",
            "https://user:password@issuer.example/jwks",
            "https://issuer.example/jwks#fragment",
            "https://issuer.example/a b",
            "https:///jwks",
            "ftp://issuer.example/jwks",
            "file:///etc/passwd",
            "data:application/json,{}",
            &format!("https://issuer.example/{}", "a".repeat(2048)),
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
