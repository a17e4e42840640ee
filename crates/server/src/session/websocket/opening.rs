//! The opening handshake, and the origins whose pages may make it.
//!
//! A browser lets any page open a WebSocket to any server, with the cookies of that server, and
//! never asks first. So the origin is checked here, where for other transports the browser keeps
//! pages from reading.

use reactor::{Driver, SlotKey};
use wire::cookie;
use wire::head::Request;
use wire::status::Status;
use wire::websocket::{self, Accept, HandshakeError};

use crate::answer::{Answer, Fields};
use crate::settings::LiveSettings;
use crate::table::ConnectionTable;

/// Fields of an answer that asks for another protocol, or another version of it.
const UPGRADE_FIELDS: &[(&str, &str)] = &[
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", websocket::VERSION),
];

/// Checks a request that is to open a WebSocket.
///
/// # Errors
///
/// The answer to one that does not, or that comes from a page which may not.
pub(crate) fn check_opening<D: Driver>(
    table: &ConnectionTable<D>,
    key: SlotKey,
    request: &Request<'_>,
) -> Result<Accept, Answer> {
    let accept = websocket::check(request).map_err(refusal)?;
    check_origin(&table.live, request, table.is_tls(key))
        .map_err(|reason| Answer::error(Status::FORBIDDEN, reason))?;
    Ok(accept)
}

fn refusal(error: HandshakeError) -> Answer {
    let fields = match error.status() {
        Status::UPGRADE_REQUIRED => UPGRADE_FIELDS,
        _ => &[],
    };
    Answer {
        fields: Fields::Fixed(fields),
        ..Answer::error(error.status(), error.reason())
    }
}

/// Checks the origin of a request: a program, which has none, a page of this server, or one of an
/// origin that the operator allows. Where all are allowed, only those listed by name may come with
/// what a browser adds by itself.
fn check_origin(
    live: &LiveSettings,
    request: &Request<'_>,
    is_tls: bool,
) -> Result<(), &'static str> {
    let Some(origin) = request.origin else {
        return Ok(());
    };
    let is_listed = |name: &str| live.cors_origins.iter().any(|known| known == name);
    if is_same(origin, request.host, is_tls) || (origin != "*" && is_listed(origin)) {
        return Ok(());
    }
    if !is_listed("*") {
        return Err(
            "pages of this origin may not open a WebSocket here; the operator can list it with \
             --cors-origin",
        );
    }
    if has_ambient_credential(live, request) {
        return Err(
            "pages of this origin may not use cookies here; the operator can list it by name with \
             --cors-origin, or the page can show a ticket",
        );
    }
    Ok(())
}

/// Returns whether an origin is the server that a request names. A proxy in front may have ended
/// TLS, so a page of `https` counts on a plain listener too; one of `http` does not over TLS.
fn is_same(origin: &str, host: Option<&str>, is_tls: bool) -> bool {
    let (name, port) = match (origin.strip_prefix("https://"), is_tls) {
        (Some(name), _) => (name, ":443"),
        (None, true) => return false,
        (None, false) => match origin.strip_prefix("http://") {
            Some(name) => (name, ":80"),
            None => return false,
        },
    };
    let bare = |name: &str| name.strip_suffix(port).unwrap_or(name).to_ascii_lowercase();
    !name.is_empty() && host.is_some_and(|host| bare(host) == bare(name))
}

/// Returns whether a request has a credential that no page has chosen to send: a cookie, or a field
/// that a proxy has set because of one.
fn has_ambient_credential(live: &LiveSettings, request: &Request<'_>) -> bool {
    let settings = live.policy.settings();
    let has_cookie = settings.cookie.as_ref().is_some_and(|name| {
        let mut fields = request.values("cookie").flatten();
        fields.any(|field| cookie::values(field, name).next().is_some())
    });
    let header = settings.identity_header.as_ref();
    has_cookie || header.is_some_and(|name| request.values(name).next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::head;

    fn verdict(allowed: &[&str], origin: &str, host: &str, is_tls: bool) -> bool {
        let live = LiveSettings {
            cors_origins: allowed.iter().map(|&it| it.to_owned()).collect(),
            ..LiveSettings::default()
        };
        let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n\r\n");
        let request = head::parse(text.as_bytes()).unwrap().unwrap();
        check_origin(&live, &request, is_tls).is_ok()
    }

    #[test]
    fn a_page_of_this_server_may_come_and_one_of_another_must_be_listed() {
        for (allowed, origin, host, is_tls, is_allowed) in [
            (&[][..], "http://a", "a", false, true),
            (&[], "http://a:8000", "a:8000", false, true),
            (&[], "http://A:8000", "a:8000", false, true),
            (&[], "https://a", "a", false, true),
            (&[], "https://a", "a:443", true, true),
            (&[], "http://a", "a:80", false, true),
            (&[], "http://a", "a", true, false),
            (&[], "http://a:8001", "a:8000", false, false),
            (&[], "http://b", "a", false, false),
            (&[], "http://a.b", "a", false, false),
            (&[], "http://b/a", "a", false, false),
            (&[], "null", "a", false, false),
            (&[], "file://", "", false, false),
            (&[], "*", "a", false, false),
            (&["*"], "null", "a", false, true),
            (&["*"], "http://b", "a", false, true),
            (&["http://b"], "http://b", "a", true, true),
            (&["http://b"], "http://b:1", "a", false, false),
        ] {
            let found = verdict(allowed, origin, host, is_tls);
            assert_eq!(found, is_allowed, "{allowed:?} {origin} {host} {is_tls}");
        }
    }
}
