//! Requests over TLS, made with `ureq` and `rustls`.
//!
//! Must never send a token elsewhere: proxies of the environment and redirects are not followed.

use std::time::Duration;

use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE};
use ureq::http::{Request, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, AsSendBody, Body};

use crate::http::CONNECT_TIMEOUT;
use crate::tls::{self, Authorities};
use machine::failure::Outcome;

/// Sent with every request.
const USER_AGENT: &str = concat!("encke/", env!("CARGO_PKG_VERSION"));

/// An `https` listener.
#[derive(Debug)]
pub(super) struct Secure {
    agent: Agent,
    /// `https://host:port`.
    base: String,
}

/// A request without its body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) bearer: Option<&'a str>,
    pub(super) content_type: Option<&'a str>,
    pub(super) read_timeout: Option<Duration>,
}

impl Secure {
    /// Returns the listener at `authority`, which is not contacted yet.
    ///
    /// # Errors
    ///
    /// When the certificate authorities cannot be used.
    pub(super) fn new(authority: &str, authorities: &Authorities) -> Outcome<Self> {
        let roots = match authorities.certificates()? {
            None => RootCerts::PlatformVerifier,
            Some(certificates) => {
                let certificates = certificates.iter().map(|one| Certificate::from_der(one));
                let certificates: Vec<_> = certificates.map(|one| one.to_owned()).collect();
                RootCerts::new_with_certs(&certificates)
            }
        };
        let tls = TlsConfig::builder()
            .root_certs(roots)
            .unversioned_rustls_crypto_provider(tls::provider());
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .https_only(true)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(USER_AGENT)
            .tls_config(tls.build());
        Ok(Self {
            agent: config.build().new_agent(),
            base: format!("https://{authority}"),
        })
    }

    /// Makes a request.
    ///
    /// # Errors
    ///
    /// When there is no response. A response is not an error, whatever its status.
    pub(super) fn request(
        &self,
        head: Head<'_>,
        body: impl AsSendBody,
    ) -> Result<Response<Body>, ureq::Error> {
        let mut request = Request::builder()
            .method(head.method)
            .uri(format!("{}{}", self.base, head.path));
        if let Some(bearer) = head.bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        if let Some(content_type) = head.content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let request = self
            .agent
            .configure_request(request.body(body)?)
            .timeout_per_read(head.read_timeout)
            .build();
        self.agent.run(request)
    }
}
