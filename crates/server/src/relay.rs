//! Requests of the page that the control API answers.
//!
//! The page is served by the public listener, and the control API answers programs only. The page's
//! requests come in here and go on to the control API, if the operator asked for the demo and they
//! carry its secret; the connection waits without a thread.

use reactor::Driver;
use reactor::SlotKey;
use wire::head::{Body, Method, Request};
use wire::status::Status;

use crate::answer::{Answer, Fields};
use crate::clock::Tenths;
use crate::connection::Phase;
use crate::demo::is_direct;
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
        let is_own_page = is_direct(request) && is_same_origin(request);
        let (true, Some(given)) = (is_own_page, request.relay) else {
            let reason = "only the page of this server, opened on this machine, may ask for this";
            return self.answer(key, request, &Answer::error(Status::FORBIDDEN, reason));
        };
        if request.body != Body::None && request.body != Body::Sized(0) {
            let reason = "no request may have a body here; the payload goes into ?data=";
            let answer = Answer::error(Status::CONTENT_TOO_LARGE, reason);
            return self.answer(key, request, &answer);
        }
        let Some(demo) = self.shared.demo.get() else {
            let answer = Answer::busy("the control API is not up yet");
            return self.answer(key, request, &answer);
        };
        if !demo.secret.matches(given) {
            let reason = "the request does not carry the secret of this run; reload the page";
            return self.answer(key, request, &Answer::error(Status::FORBIDDEN, reason));
        }
        let path = request.path.strip_prefix("/relay").unwrap_or(request.path);
        let path_and_query = match request.query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        let mailbox = std::sync::Arc::clone(&self.mailbox);
        (demo.relay)(
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

/// Whether a request comes from a page of the host that it names, or from no page. The field that
/// carries the secret makes a page of another origin ask first, and the answer is a refusal.
fn is_same_origin(request: &Request<'_>) -> bool {
    request.origin.is_none_or(|origin| {
        let origin = origin.strip_prefix("http://");
        origin.is_some() && origin == request.host
    })
}
