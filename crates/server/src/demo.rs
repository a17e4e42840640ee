//! The demo page: the page at `/` when it may publish.
//!
//! The page is told only where the control listener is, which gives the secret of this run to the
//! page's origin. A proxy in front of the public listener passes on any request, with any `Host`,
//! and may leave no trace of itself; but it does not lead to the control listener. So a request
//! with the secret comes from a browser on this machine.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use wire::head::Request;
use wire::host::Host;
use wire::status::Status;

use crate::answer::{Answer, Fields, HTML, PAGE_POLICY, page_of};

/// Element of the page that holds the address of the control listener; empty when the page may not
/// publish.
const PLACEHOLDER: &str = r#"<meta name="control" content="">"#;

/// Demo page. Made once for a server.
pub struct DemoPage {
    /// The element that [`PLACEHOLDER`] is replaced by.
    control: Box<str>,
    policy: Arc<str>,
}

impl DemoPage {
    /// A page that publishes and subscribes on the control listener at `control`.
    pub fn new(control: SocketAddr) -> Self {
        // Content security policies have no IPv6 addresses (CSP Level 3, section 2.3.1).
        let origin = match control {
            SocketAddr::V4(control) => format!("http://{control}"),
            SocketAddr::V6(control) => format!("http://localhost:{}", control.port()),
        };
        let connect = format!("connect-src 'self' {origin}");
        Self {
            control: format!(r#"<meta name="control" content="{origin}">"#).into(),
            policy: PAGE_POLICY.replace("connect-src 'self'", &connect).into(),
        }
    }

    /// Makes the answer with the page of a server that keeps who is online, or does not.
    pub(crate) fn answer(&self, is_presence_kept: bool) -> Answer {
        let page = page_of(is_presence_kept).replace(PLACEHOLDER, &self.control);
        Answer {
            status: Status::OK,
            content_type: HTML,
            fields: Fields::Page(Arc::clone(&self.policy)),
            body: Cow::Owned(page.into_bytes()),
        }
    }
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
        DemoPage::new(control.parse().unwrap())
    }

    #[test]
    fn the_page_knows_the_control_listener() {
        assert_eq!(page_of(false).matches(PLACEHOLDER).count(), 1);
        for (control, origin) in [
            ("127.0.0.1:81", "http://127.0.0.1:81"),
            ("[::1]:81", "http://localhost:81"),
        ] {
            let page = page(control);
            let answer = page.answer(false);
            let body = str::from_utf8(&answer.body).unwrap();
            assert!(body.contains(&format!(r#"name="control" content="{origin}""#)));
            let policy = format!("connect-src 'self' {origin};");
            assert!(page.policy.contains(&policy), "{}", page.policy);
        }
    }

    #[test]
    fn the_page_shows_who_is_online_where_that_is_kept() {
        let shows = |page: &str| page.contains(r#"<meta name="presence" content="on">"#);
        assert!(shows(page_of(true)) && !shows(page_of(false)));
        let page = page("127.0.0.1:81");
        let body = |is_kept| String::from_utf8(page.answer(is_kept).body.into_owned()).unwrap();
        assert!(!shows(&body(false)));
        let with = body(true);
        assert!(shows(&with) && with.contains("http://127.0.0.1:81"));
    }

    #[test]
    fn the_page_has_the_limit_of_ids() {
        assert!(page_of(false).contains(&format!("bytes > {}", wire::target::ID_BYTES_MAX)));
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
