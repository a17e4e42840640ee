//! What a request asks of its stream, beyond the ids.

use reactor::{Driver, SlotKey};
use wire::encoding::{Encoding, Format};
use wire::head::{Request, Version};
use wire::status::Status;
use wire::target;
use wire::transport::{Framing, Transport};
use wire::websocket::Accept;

use super::websocket::check_opening;
use crate::answer::Answer;
use crate::slow_policy::SlowPolicy;
use crate::stream_query::{accepts_cloud_events, asks_for_presence};
use crate::table::ConnectionTable;

/// Form of a stream.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) encoding: Encoding,
    /// The policy for when the client reads slowly, if it asks for one.
    pub(super) slow: Option<SlowPolicy>,
    /// Whether the client asks to be told who is online.
    pub(super) presence: bool,
    pub(super) framing: Framing,
    /// The proof that a WebSocket's handshake was understood.
    pub(super) accept: Option<Accept>,
}

impl Form {
    /// Returns the form that a request asks for. The error is the answer to one that asks for none
    /// that there is, or may not have it.
    pub(super) fn of<D: Driver>(
        table: &ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
        transport: Transport,
        is_presence_kept: bool,
    ) -> Result<Self, Answer> {
        let (framing, accept) = match transport {
            Transport::WebSocket => {
                let accept = check_opening(table, key, request)?;
                (Framing::WebSocket, Some(accept))
            }
            _ => (framing(request.version), None),
        };
        let presence = asks_for_presence(request, is_presence_kept)?;
        if presence && transport == Transport::Test {
            return Err(Answer::error(
                Status::BAD_REQUEST,
                "this path has no place for presence, as its clients take every byte for payload; \
                 leave presence out, or use /events/{id} or /stream/{id}",
            ));
        }
        Ok(Self {
            encoding: encoding(transport, request)?,
            slow: slow(request)?,
            presence,
            framing,
            accept,
        })
    }
}

/// Returns the framing of a stream of HTTP.
pub(super) const fn framing(version: Version) -> Framing {
    match version {
        Version::Http11 => Framing::Chunked,
        Version::Http10 => Framing::Close,
    }
}

/// Returns the policy for slow readers that a request asks for.
fn slow(request: &Request<'_>) -> Result<Option<SlowPolicy>, Answer> {
    let found = match target::query_value(request.query, "slow") {
        Ok(None) => return Ok(None),
        Ok(Some(name)) => match SlowPolicy::find(&name) {
            Some(policy) => return Ok(Some(policy)),
            None => unknown("slow", &name, "is not known"),
        },
        Err(_) => unknown("slow", "", ""),
    };
    let names = SlowPolicy::ALL.map(SlowPolicy::name).join(", ");
    Err(Answer::error_owned(
        Status::BAD_REQUEST,
        format!("{found}; leave slow out, or use one of {names}"),
    ))
}

/// Says which value of a parameter is not known. The value is the client's: a long or strange one
/// is not repeated.
fn unknown(parameter: &str, value: &str, verdict: &str) -> String {
    let is_word = (1..=32).contains(&value.len())
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    match is_word {
        true => format!("{parameter}={value} {verdict}"),
        false => format!("the value of {parameter} is not known"),
    }
}

/// Returns the encoding that a request asks for: by `format`, else by `Accept`, else the default of
/// `transport`. The error is the answer to a format that the transport does not have.
fn encoding(transport: Transport, request: &Request<'_>) -> Result<Encoding, Answer> {
    match target::query_value(request.query, "format") {
        Ok(None) if accepts_cloud_events(request) => {
            Ok(Encoding::new(transport, Format::CloudEvents)
                .unwrap_or(Encoding::default_of(transport)))
        }
        Ok(None) => Ok(Encoding::default_of(transport)),
        Ok(Some(name)) => Encoding::ALL
            .into_iter()
            .find(|known| known.transport() == transport && known.format().name() == name)
            .ok_or_else(|| unknown_format(transport, &name)),
        Err(_) => Err(unknown_format(transport, "")),
    }
}

fn unknown_format(transport: Transport, name: &str) -> Answer {
    let has = |format| Encoding::new(transport, format).is_some();
    let formats = match (has(Format::Plain), has(Format::Json)) {
        (true, true) => "plain, json or cloudevents",
        (true, false) => "plain, as its clients take every byte for payload",
        (false, _) => "json or cloudevents",
    };
    // The name is the client's: long or strange ones are not repeated.
    let is_word = name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let found = match is_word && !name.is_empty() {
        true => format!("format={name} is not known on this path"),
        false => "the format is not known".to_owned(),
    };
    Answer::error_owned(
        Status::BAD_REQUEST,
        format!("{found}; leave format out, or use {formats}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(transport: Transport, path: &str, accept: &str) -> Result<Encoding, Vec<u8>> {
        let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\nAccept: {accept}\r\n\r\n");
        let request = wire::head::parse(head.as_bytes()).unwrap().expect("a head");
        encoding(transport, &request).map_err(|answer| {
            assert_eq!(answer.status, Status::BAD_REQUEST);
            answer.body.into_owned()
        })
    }

    #[test]
    fn a_request_without_a_format_gets_the_default_of_its_transport() {
        for accept in [
            "*/*",
            "text/event-stream",
            "application/*",
            "application/json",
        ] {
            for transport in Transport::ALL {
                let expected = Encoding::default_of(transport);
                assert_eq!(asked(transport, "/x?id=1", accept), Ok(expected));
            }
        }
    }

    #[test]
    fn every_encoding_can_be_asked_for_by_its_name() {
        for encoding in Encoding::ALL {
            let path = format!("/x?a=b&format={}", encoding.format().name());
            assert_eq!(asked(encoding.transport(), &path, "*/*"), Ok(encoding));
        }
    }

    #[test]
    fn cloud_events_can_be_accepted_where_a_transport_has_them() {
        for accept in [
            "application/cloudevents+json",
            "text/event-stream, Application/CloudEvents+JSON;q=0.5",
            "application/cloudevents+json; charset=utf-8",
        ] {
            let of = |transport| asked(transport, "/x", accept);
            assert_eq!(of(Transport::Sse), Ok(Encoding::SseCloudEvents), "{accept}");
            assert_eq!(of(Transport::Ndjson), Ok(Encoding::NdjsonCloudEvents));
            assert_eq!(of(Transport::Test), Ok(Encoding::TestPlain));
        }
        let refused = "application/cloudevents+json;q=0.0, */*";
        assert_eq!(asked(Transport::Sse, "/x", refused), Ok(Encoding::SsePlain));
        let both = "application/cloudevents+json";
        let json = asked(Transport::Sse, "/x?format=json", both);
        assert_eq!(json, Ok(Encoding::SseJson), "the URL wins");
    }

    fn asked_slow(query: &str) -> Result<Option<SlowPolicy>, String> {
        let head = format!("GET /x?{query} HTTP/1.1\r\nHost: h\r\n\r\n");
        let request = wire::head::parse(head.as_bytes()).unwrap().expect("a head");
        let asked = slow(&request);
        asked.map_err(|answer| {
            assert_eq!(answer.status, Status::BAD_REQUEST);
            String::from_utf8(answer.body.into_owned()).unwrap()
        })
    }

    #[test]
    fn every_policy_for_slow_readers_can_be_asked_for_by_its_name() {
        assert_eq!(asked_slow("a=b"), Ok(None));
        for policy in SlowPolicy::ALL {
            let asked = asked_slow(&format!("slow={}", policy.name()));
            assert_eq!(asked, Ok(Some(policy)));
        }
        let known = "leave slow out, or use one of close, catch-up, drop-oldest, latest\n";
        let unknown = "the value of slow is not known";
        for (query, found) in [
            ("slow=never", "slow=never is not known"),
            ("slow=Close", "slow=Close is not known"),
            ("slow=", unknown),
            ("slow=%zz", unknown),
            ("slow=%0d%0aa:b", unknown),
        ] {
            assert_eq!(
                asked_slow(query),
                Err(format!("{found}; {known}")),
                "{query}"
            );
        }
    }

    #[test]
    fn an_unknown_format_is_refused_with_those_that_there_are() {
        let (sse, ndjson) = ("plain, json or cloudevents", "json or cloudevents");
        let test = "plain, as its clients take every byte for payload";
        let known = |name| format!("format={name} is not known on this path");
        let strange = || "the format is not known".to_owned();
        let cases = [
            (Transport::Sse, "xml", known("xml"), sse),
            (Transport::Ndjson, "plain", known("plain"), ndjson),
            (Transport::Sse, "", strange(), sse),
            (Transport::Sse, "%zz", strange(), sse),
            (Transport::Sse, "%0d%0aSet-Cookie:a", strange(), sse),
            (Transport::Test, "json", known("json"), test),
        ];
        for (transport, name, found, formats) in cases {
            let answer = asked(transport, &format!("/x?format={name}"), "*/*");
            let sentence = format!("{found}; leave format out, or use {formats}\n");
            assert_eq!(answer, Err(sentence.into_bytes()));
        }
    }
}
