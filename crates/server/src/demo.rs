//! The demo page: the page at `/` when it may publish.
//!
//! Owns the secret of this run. The page is told only where to ask for it: the
//! control listener gives the secret to the page's origin. A proxy in front of the public listener
//! passes on any request, with any `Host`, and may leave no trace of itself; but it does not lead
//! to the control listener. So a request with the secret comes from a browser on this machine. Must
//! never put the secret into an answer of the public listener.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use wire::head::Request;
use wire::host::Host;
use wire::status::Status;

use crate::answer::{Answer, Fields, HTML, PAGE_POLICY, page_of};
use crate::mail::PageHandler;

/// Element of the page that holds the address of the control listener; empty when the page may not
/// publish.
const PLACEHOLDER: &str = r#"<meta name="control" content="">"#;

/// Secret in requests of the demo page: 128 random bits, valid for one run. Its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct DemoSecret(Arc<str>);

impl DemoSecret {
    /// Makes a secret of random bits.
    ///
    /// ```
    /// let secret = server::DemoSecret::new(0xec1e);
    /// assert_eq!(secret.reveal(), "0000000000000000000000000000ec1e");
    /// ```
    pub fn new(random: u128) -> Self {
        Self(format!("{random:032x}").into())
    }

    /// Returns the secret as requests carry it: 32 hexadecimal digits.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether `given` is the secret, in constant time.
    pub(crate) fn matches(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

impl fmt::Debug for DemoSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DemoSecret(…)")
    }
}

/// Demo page, and the control API that answers its requests. Made once for a server.
pub struct DemoPage {
    pub(crate) secret: DemoSecret,
    pub(crate) handler: Box<PageHandler>,
    /// The element that [`PLACEHOLDER`] is replaced by.
    control: Box<str>,
    body: Box<[u8]>,
    policy: Arc<str>,
}

impl DemoPage {
    /// A page whose requests go through `handler` when they carry `secret`, for which the page asks
    /// the control listener at `control`.
    pub fn new(secret: DemoSecret, control: SocketAddr, handler: Box<PageHandler>) -> Self {
        // Content security policies have no IPv6 addresses (CSP Level 3, section 2.3.1).
        let origin = match control {
            SocketAddr::V4(control) => format!("http://{control}"),
            SocketAddr::V6(control) => format!("http://localhost:{}", control.port()),
        };
        let filled = format!(r#"<meta name="control" content="{origin}">"#);
        let connect = format!("connect-src 'self' {origin}");
        Self {
            secret,
            handler,
            body: filled_page(&filled, false),
            control: filled.into(),
            policy: PAGE_POLICY.replace("connect-src 'self'", &connect).into(),
        }
    }

    /// Makes it the page of a server that keeps who is online.
    #[must_use]
    pub(crate) fn with_presence(mut self) -> Self {
        self.body = filled_page(&self.control, true);
        self
    }

    pub(crate) fn answer(&self) -> Answer {
        Answer {
            status: Status::OK,
            content_type: HTML,
            fields: Fields::Page(Arc::clone(&self.policy)),
            body: Cow::Owned(self.body.to_vec()),
        }
    }
}

fn filled_page(control: &str, is_presence_kept: bool) -> Box<[u8]> {
    let page = page_of(is_presence_kept).replace(PLACEHOLDER, control);
    page.into_bytes().into()
}

/// Returns whether a request names this machine, and has no field that a proxy adds.
pub(crate) fn is_direct(request: &Request<'_>) -> bool {
    let is_local = |host| Host::of(host).is_loopback();
    !request.forwarded && request.host.is_some_and(is_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(control: &str) -> DemoPage {
        let control = control.parse().unwrap();
        DemoPage::new(DemoSecret::new(7), control, Box::new(|_, _| ()))
    }

    #[test]
    fn the_page_knows_the_control_listener_and_not_the_secret() {
        assert_eq!(page_of(false).matches(PLACEHOLDER).count(), 1);
        for (control, origin) in [
            ("127.0.0.1:81", "http://127.0.0.1:81"),
            ("[::1]:81", "http://localhost:81"),
        ] {
            let page = page(control);
            let answer = page.answer();
            let body = str::from_utf8(&answer.body).unwrap();
            assert!(body.contains(&format!(r#"name="control" content="{origin}""#)));
            assert!(!body.contains(page.secret.reveal()));
            let policy = format!("connect-src 'self' {origin};");
            assert!(page.policy.contains(&policy), "{}", page.policy);
        }
    }

    #[test]
    fn the_page_shows_who_is_online_where_that_is_kept() {
        let shows = |page: &str| page.contains(r#"<meta name="presence" content="on">"#);
        assert!(shows(page_of(true)) && !shows(page_of(false)));
        let body = |page: DemoPage| String::from_utf8(page.answer().body.into_owned()).unwrap();
        assert!(!shows(&body(page("127.0.0.1:81"))));
        let with = body(page("127.0.0.1:81").with_presence());
        assert!(shows(&with) && with.contains("http://127.0.0.1:81"));
    }

    #[test]
    fn the_page_has_the_limit_of_ids() {
        assert!(page_of(false).contains(&format!("bytes > {}", wire::target::ID_BYTES_MAX)));
    }

    #[test]
    fn a_secret_matches_itself_only_and_is_not_shown() {
        let secret = DemoSecret::new(u128::MAX / 3);
        assert!(secret.matches(secret.reveal()));
        for wrong in ["", "1", &secret.reveal()[1..], &"5".repeat(33)] {
            assert!(!secret.matches(wrong), "{wrong}");
        }
        assert!(!format!("{secret:?}").contains("555"));
    }

    #[test]
    fn a_request_is_direct_with_a_local_name_and_without_traces_of_a_proxy() {
        let direct = |fields: &str| {
            let head = format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n");
            is_direct(&wire::head::parse(head.as_bytes()).unwrap().unwrap())
        };
        assert!(direct("Host: localhost:8000"));
        assert!(!direct("Host: example.com"));
        assert!(!direct("Host: localhost:8000\r\nVia: 1.1 a"));
        assert!(!direct("Host: localhost:8000\r\nX-Forwarded-For: a"));
        assert!(!direct("Host: localhost:8000\r\nForwarded: for=a"));
    }
}
