//! Requests to the receiver.

use std::time::Duration;

use ureq::http::Response;
use ureq::http::header::{CONTENT_TYPE, RETRY_AFTER};
use ureq::{Agent, Body, Error};

use crate::authorities::Authorities;
use crate::limits::{ANSWER_BODY_BYTES_MAX, ANSWER_BODY_TIME};
use crate::outside::{OutsideUrl, is_timeout};
use crate::retry::{Failure, Outcome};

/// Sender of requests to one URL. Redirects are not followed, because the URL is configured.
pub(crate) struct Requests {
    agent: Agent,
    url: OutsideUrl,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) id: &'a str,
    pub(crate) timestamp: u64,
    pub(crate) signatures: &'a str,
    pub(crate) body: &'a [u8],
}

impl Requests {
    /// Returns a sender of requests to `url`, whose certificate must be issued by one of
    /// `authorities`, or by one of the system if that is `None`.
    pub(crate) fn new(url: OutsideUrl, authorities: Option<&Authorities>) -> Self {
        let agent = url.agent(authorities, 1);
        Self { agent, url }
    }

    /// Sends a request, which takes no longer than `timeout`.
    pub(crate) fn send(&self, message: Message<'_>, timeout: Duration) -> Outcome {
        let request = self.agent.post(self.url.uri());
        let request = request
            .config()
            .timeout_global(Some(timeout))
            .timeout_recv_body(Some(ANSWER_BODY_TIME))
            .build()
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", message.id)
            .header("webhook-timestamp", message.timestamp.to_string())
            .header("webhook-signature", message.signatures);
        match request.send(message.body) {
            Ok(response) => outcome(response),
            Err(error) => Outcome::Failed(failure(error, timeout)),
        }
    }
}

fn outcome(mut response: Response<Body>) -> Outcome {
    let status = response.status().as_u16();
    let retry_after = response.headers().get(RETRY_AFTER);
    let retry_after = retry_after.and_then(|field| field.to_str().ok()?.trim().parse().ok());
    // The connection can be reused after the body was read.
    let body = response.body_mut().with_config();
    let _ = body.limit(ANSWER_BODY_BYTES_MAX).read_to_vec();
    match status {
        200..300 => Outcome::Accepted,
        410 => Outcome::Gone,
        300..400 => Outcome::Failed(Failure::Redirect),
        status => Outcome::Failed(Failure::Status {
            status,
            retry_after: retry_after.map(Duration::from_secs),
        }),
    }
}

fn failure(error: Error, timeout: Duration) -> Failure {
    match is_timeout(&error) {
        true => Failure::Timeout(timeout),
        false => Failure::Transport(error.to_string()),
    }
}
