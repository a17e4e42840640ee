//! One fetch of a JWKS document, within bounds.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use auth::{KeyError, KeySet};
use ureq::http::header::ACCEPT;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Error};

use super::JwksUrl;

/// Time limit of a fetch, from the look-up of the name to the last byte.
const TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5000 });

/// Largest document, in bytes.
const BODY_BYTES_MAX: u64 = auth::keys::DOCUMENT_BYTES_MAX as u64;

/// Sent with every request.
const USER_AGENT: &str = concat!("encke/", env!("CARGO_PKG_VERSION"));

/// Requests to one address. A redirection is not followed: the operator has named the address.
pub(super) struct Requests {
    agent: Agent,
    url: JwksUrl,
}

/// Reason why a fetch failed. Its `Display` is a part of a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FetchError {
    Timeout,
    Redirect,
    Status(u16),
    TooLarge,
    Keys(KeyError),
    Transport(String),
}

impl Requests {
    pub(super) fn new(url: &JwksUrl) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(provider);
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .https_only(!url.is_plain())
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_global(Some(TIMEOUT))
            // A fetch in five minutes needs no connection in between.
            .max_idle_connections(0)
            .user_agent(USER_AGENT)
            .tls_config(tls.build());
        Self {
            agent: config.build().new_agent(),
            url: url.clone(),
        }
    }

    /// Fetches the document and makes keys of it.
    pub(super) fn fetch(&self) -> Result<KeySet, FetchError> {
        let request = self.agent.get(self.url.uri());
        let request = request.header(ACCEPT, "application/jwk-set+json, application/json");
        let mut response = request.call().map_err(FetchError::of)?;
        match response.status().as_u16() {
            200 => {}
            300..400 => return Err(FetchError::Redirect),
            status => return Err(FetchError::Status(status)),
        }
        let body = response.body_mut().with_config().limit(BODY_BYTES_MAX);
        let document = body.read_to_vec().map_err(FetchError::of)?;
        KeySet::from_jwks(&document).map_err(FetchError::Keys)
    }
}

impl FetchError {
    fn of(error: Error) -> Self {
        match error {
            Error::Timeout(_) => Self::Timeout,
            Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => Self::Timeout,
            Error::BodyExceedsLimit(_) => Self::TooLarge,
            error => Self::Transport(error.to_string()),
        }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => write!(f, "no answer within {} seconds", TIMEOUT.as_secs()),
            Self::Redirect => {
                f.write_str("it redirects elsewhere, which is not followed; name the new address")
            }
            Self::Status(status) => write!(f, "the status of the answer is {status}, not 200"),
            Self::TooLarge => write!(f, "it is longer than {BODY_BYTES_MAX} bytes"),
            Self::Keys(error) => fmt::Display::fmt(error, f),
            Self::Transport(error) => f.write_str(error),
        }
    }
}
