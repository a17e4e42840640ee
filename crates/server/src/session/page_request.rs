//! Requests of the demo page, which the control API answers.
//!
//! The page is served by the public listener, and the control API answers programs only. The page's
//! requests come in here and go on to the control API, if the operator asked for the demo and they
//! carry its secret; the connection waits without a thread.

use std::sync::Arc;

use reactor::{Driver, Mailbox, SlotKey};
use wire::head::{Body, Method, Request};
use wire::status::Status;

use crate::answer::{Answer, Fields, Responder};
use crate::demo::{DemoPage, is_direct};
use crate::mail::{Mail, PageRequest, PageResponse};
use crate::table::{ConnectionTable, Phase};

/// Passes a request of the page on to the control API, whose response comes by `mailbox`.
pub(crate) fn relay<D: Driver>(
    table: &mut ConnectionTable<D>,
    responder: &mut Responder,
    mailbox: &Arc<Mailbox<Mail>>,
    demo: Option<&DemoPage>,
    key: SlotKey,
    request: &Request<'_>,
) {
    match admit(demo, request, table.is_tls(key)) {
        Err(answer) => responder.answer(table, key, request, &answer),
        Ok((demo, method)) => {
            let path = request.path.strip_prefix("/relay").unwrap_or(request.path);
            let path_and_query = match request.query {
                Some(query) => format!("{path}?{query}"),
                None => path.to_owned(),
            };
            let request = PageRequest {
                method,
                path_and_query,
            };
            table.enter(key, Phase::AwaitingControl);
            let mailbox = Arc::clone(mailbox);
            let answer = move |response| mailbox.insert(Mail::Answer { key, response });
            (demo.handler)(request, Box::new(answer));
        }
    }
}

/// Returns the page and the method of a request that may be passed on, or the answer to one that
/// may not.
fn admit<'a>(
    demo: Option<&'a DemoPage>,
    request: &Request<'_>,
    is_tls: bool,
) -> Result<(&'a DemoPage, &'static str), Answer> {
    let method = match request.method {
        Method::Get => "GET",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
        Method::Head | Method::Options | Method::Connect | Method::Other => {
            return Err(Answer::method_not_allowed("GET, POST, PUT, DELETE"));
        }
    };
    let is_own_page = is_direct(request) && is_same_origin(request, is_tls);
    let (true, Some(given)) = (is_own_page, request.relay) else {
        let reason =
            "only the page of this server, opened on the same machine, may send this request";
        return Err(Answer::error(Status::FORBIDDEN, reason));
    };
    if request.body != Body::None && request.body != Body::Sized(0) {
        let reason = "the request must not have a body; put the payload into ?data=";
        return Err(Answer::error(Status::CONTENT_TOO_LARGE, reason));
    }
    let Some(demo) = demo else {
        return Err(Answer::busy("the control API has not started yet"));
    };
    if !demo.secret.matches(given) {
        let reason = "the request does not contain the secret of this run; reload the page";
        return Err(Answer::error(Status::FORBIDDEN, reason));
    }
    Ok((demo, method))
}

/// Answers a request of the page with the response of the control API.
pub(crate) fn respond<D: Driver>(
    table: &mut ConnectionTable<D>,
    responder: &mut Responder,
    key: SlotKey,
    response: PageResponse,
) {
    let waits = |phase| phase == Phase::AwaitingControl;
    if !table
        .get(key)
        .is_some_and(|connection| waits(connection.phase))
    {
        return;
    }
    let answer = Answer {
        status: status_of(response.status),
        content_type: response.content_type,
        fields: Fields::Fixed(&[("Cache-Control", "no-store")]),
        body: response.body.into(),
    };
    // Further input of the client was not kept, so the connection ends.
    responder.answer_last(table, key, &answer);
}

fn status_of(code: u16) -> Status {
    let known = Status::ALL.iter().find(|status| status.code() == code);
    known.copied().unwrap_or(Status::INTERNAL_SERVER_ERROR)
}

/// Whether a request comes from a page of the host that it names, or from no page. The field that
/// carries the secret makes a page of another origin ask first, and the answer is a refusal.
fn is_same_origin(request: &Request<'_>, is_tls: bool) -> bool {
    let scheme = if is_tls { "https://" } else { "http://" };
    request.origin.is_none_or(|origin| {
        let origin = origin.strip_prefix(scheme);
        origin.is_some() && origin == request.host
    })
}
