//! Requests of the page that the control API answers.
//!
//! The page is served by the public listener and may not reach another port. Its requests come in here
//! and go on to the control API, if the operator lets them; the connection waits without a thread.

use std::net::IpAddr;

use reactor::Driver;
use reactor::SlotKey;
use wire::head::{Body, Method, Request};
use wire::status::Status;

use crate::answer::{Answer, Fields};
use crate::clock::Tenths;
use crate::connection::Phase;
use crate::mail::{Mail, RelayRequest, RelayResponse};
use crate::worker::Worker;

impl<D: Driver> Worker<D> {
    pub(crate) fn on_relay(&mut self, key: SlotKey, request: &Request<'_>) {
        let method = match request.method {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Head | Method::Options | Method::Other => {
                let answer = Answer::method_not_allowed("GET, POST, PUT, DELETE");
                return self.answer(key, request, &answer);
            }
        };
        if !is_own_page(request) {
            let reason = "only the page that this server serves may ask this";
            return self.answer(key, request, &Answer::error(Status::FORBIDDEN, reason));
        }
        if request.body != Body::None && request.body != Body::Sized(0) {
            let reason = "no request may have a body here; the payload goes into ?data=";
            return self.answer(
                key,
                request,
                &Answer::error(Status::CONTENT_TOO_LARGE, reason),
            );
        }
        let Some(relay) = self.shared.relay.get() else {
            let answer = Answer::busy("the control API is not up yet");
            return self.answer(key, request, &answer);
        };
        let path = request.path.strip_prefix("/relay").unwrap_or(request.path);
        let path_and_query = match request.query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        let mailbox = std::sync::Arc::clone(&self.mailbox);
        relay(
            RelayRequest {
                method,
                path_and_query,
            },
            Box::new(move |response| mailbox.insert(Mail::Answer { key, response })),
        );
        let since = Tenths::of(self.clock.now);
        if let Some(connection) = self.connection(key) {
            connection.phase = Phase::Relayed;
            connection.since = since;
            self.time(key);
        }
    }

    pub(crate) fn answer_relayed(&mut self, key: SlotKey, response: RelayResponse) {
        let answer = Answer {
            status: status_of(response.status),
            content_type: response.content_type,
            fields: Fields::Fixed(&[("Cache-Control", "no-store")]),
            body: response.body.into(),
        };
        if self
            .connection(key)
            .is_some_and(|connection| connection.phase == Phase::Relayed)
        {
            // What else the client may have sent was not kept: the connection ends here.
            self.give_last(key, &answer);
        }
    }
}

fn status_of(code: u16) -> Status {
    let known = Status::ALL.iter().find(|status| status.code() == code);
    known.copied().unwrap_or(Status::INTERNAL_SERVER_ERROR)
}

/// Whether a request comes from the page of this server, opened under a local name. The field makes a
/// page of another origin ask first, and it is refused; the name foils one whose own name was
/// made to lead here (DNS rebinding).
fn is_own_page(request: &Request<'_>) -> bool {
    let Some(host) = request.host else {
        return false;
    };
    let same_origin = request.origin.is_none_or(|origin| {
        origin
            .strip_prefix("http://")
            .is_some_and(|origin| origin == host)
    });
    request.relay && same_origin && is_local_name(host)
}

fn is_local_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_local_name;

    #[test]
    fn only_names_of_this_machine_are_local() {
        for name in [
            "localhost",
            "LOCALHOST:8000",
            "127.0.0.1",
            "127.1.2.3:80",
            "[::1]",
            "[::1]:8000",
        ] {
            assert!(is_local_name(name), "{name}");
        }
        for name in [
            "",
            "example.com",
            "localhost.example.com:8000",
            "10.0.0.1:8000",
            "127.0.0.1.nip.io",
        ] {
            assert!(!is_local_name(name), "{name}");
        }
    }
}
