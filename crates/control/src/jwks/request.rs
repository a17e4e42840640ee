//! One fetch of a JWKS document, within bounds.

use std::time::Duration;

use auth::{KeyError, KeySet};
use ureq::http::header::ACCEPT;
use ureq::{Agent, Error};
use webhook::outside::{OutsideUrl, is_timeout};

/// Largest document, in bytes.
const BODY_BYTES_MAX: u64 = auth::keys::DOCUMENT_BYTES_MAX as u64;

/// Requests to one address.
pub(super) struct Requests {
    agent: Agent,
    url: OutsideUrl,
    /// Time limit of a fetch, from the look-up of the name to the last byte.
    timeout: Duration,
}

/// Reason why a fetch failed. Its `Display` is a part of a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    #[error("no answer within {} seconds", .0.as_secs())]
    Timeout(Duration),
    #[error("it redirects elsewhere, which is not followed; name the new address")]
    Redirect,
    #[error("the status of the answer is {0}, not 200")]
    Status(u16),
    #[error("it is longer than {BODY_BYTES_MAX} bytes")]
    TooLarge,
    #[error("{0}")]
    Keys(KeyError),
    #[error("{0}")]
    Transport(String),
}

impl Requests {
    pub(super) fn new(url: &OutsideUrl, timeout: Duration) -> Self {
        Self {
            // A fetch in five minutes needs no connection in between.
            agent: url.agent(None, 0),
            url: url.clone(),
            timeout,
        }
    }

    /// Fetches the document and makes keys of it.
    pub(super) fn fetch(&self) -> Result<KeySet, FetchError> {
        let of = |error| FetchError::of(error, self.timeout);
        let request = self.agent.get(self.url.uri()).config();
        let request = request.timeout_global(Some(self.timeout)).build();
        let request = request.header(ACCEPT, "application/jwk-set+json, application/json");
        let mut response = request.call().map_err(of)?;
        match response.status().as_u16() {
            200 => {}
            300..400 => return Err(FetchError::Redirect),
            status => return Err(FetchError::Status(status)),
        }
        let body = response.body_mut().with_config().limit(BODY_BYTES_MAX);
        let document = body.read_to_vec().map_err(of)?;
        KeySet::from_jwks(&document).map_err(FetchError::Keys)
    }
}

impl FetchError {
    fn of(error: Error, timeout: Duration) -> Self {
        match error {
            error if is_timeout(&error) => Self::Timeout(timeout),
            Error::BodyExceedsLimit(_) => Self::TooLarge,
            error => Self::Transport(error.to_string()),
        }
    }
}
