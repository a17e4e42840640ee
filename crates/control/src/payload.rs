//! The content of an event: what kind it is, and whether it is what it says.

use std::str::from_utf8;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use router::Payload;
use serde_json::value::RawValue;
use wire::json::{LEVELS_MAX, check};

use crate::json::on_one_line;
use crate::problem::Problem;

/// Returns the media type of a request without its parameters, in lower case; empty when there is
/// none.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(CONTENT_TYPE)
        .map(|value| value.as_bytes())
        .unwrap_or_default();
    let essence = value.split(|byte| *byte == b';').next().unwrap_or_default();
    String::from_utf8_lossy(essence.trim_ascii()).to_ascii_lowercase()
}

/// The content of an event whose bytes are the body of a request.
pub(crate) fn of_body(headers: &HeaderMap, body: Bytes) -> Result<Payload, Problem> {
    let media_type = media_type(headers);
    match &*media_type {
        "application/json" => of_json(body),
        json if json.ends_with("+json") => of_json(body),
        "application/octet-stream" => Ok(Payload::binary(body)),
        // curl says the second of everything that it is given with `--data`.
        "" | "application/x-www-form-urlencoded" => Ok(match from_utf8(&body) {
            Ok(_) => Payload::text(body),
            Err(_) => Payload::binary(body),
        }),
        text if text.starts_with("text/") => of_text(headers, body),
        other => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!(
                "the Content-Type is {other:?}; for an event, use application/json, text/plain or \
                 application/octet-stream"
            ),
        )),
    }
}

fn of_text(headers: &HeaderMap, body: Bytes) -> Result<Payload, Problem> {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let charset = value
        .split(';')
        .filter_map(|parameter| parameter.trim().split_once('='))
        .find(|(name, _)| name.eq_ignore_ascii_case("charset"))
        .map_or("utf-8", |(_, charset)| charset.trim_matches('"'));
    if !["utf-8", "utf8", "us-ascii"]
        .iter()
        .any(|known| charset.eq_ignore_ascii_case(known))
    {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("the charset is {charset:?}; text must be UTF-8"),
        ));
    }
    match from_utf8(&body) {
        Ok(_) => Ok(Payload::text(body)),
        Err(error) => Err(Problem::bad(
            "body",
            format!(
                "it is not UTF-8 at byte {}; text must be UTF-8; send other bytes as \
                 application/octet-stream",
                error.valid_up_to()
            ),
        )),
    }
}

fn of_json(body: Bytes) -> Result<Payload, Problem> {
    let value: &RawValue = serde_json::from_slice(&body)
        .map_err(|error| Problem::bad("body", format!("it is not one JSON value: {error}")))?;
    let value = value.get();
    check(value.as_bytes(), LEVELS_MAX).map_err(|error| Problem::bad("body", error))?;
    Ok(Payload::json(on_one_line(value, |value| {
        body.slice_ref(value.as_bytes())
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A valid value of 129 levels.
    const DEEP: [u8; 258] = {
        let mut value = [b'['; 258];
        let mut at = 129;
        while at < 258 {
            value[at] = b']';
            at += 1;
        }
        value
    };

    fn payload(content_type: &str, body: &'static [u8]) -> Result<Payload, (u16, String)> {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
        }
        of_body(&headers, Bytes::from_static(body))
            .map_err(|problem| (problem.status().as_u16(), problem.detail().to_owned()))
    }

    #[test]
    fn the_content_type_decides_what_a_body_is() {
        let form = "application/x-www-form-urlencoded";
        assert_eq!(payload("", b"hello"), Ok(Payload::text("hello".into())));
        assert_eq!(
            payload("", b"\xff"),
            Ok(Payload::binary(b"\xff"[..].into()))
        );
        assert_eq!(payload(form, b"a=b&c"), Ok(Payload::text("a=b&c".into())));
        assert_eq!(
            payload("Text/HTML; charset=\"UTF-8\"", b"x"),
            Ok(Payload::text("x".into()))
        );
        assert_eq!(
            payload("application/octet-stream", b"x"),
            Ok(Payload::binary("x".into()))
        );
        assert_eq!(
            payload("application/json; x=y", b" 1 "),
            Ok(Payload::json("1".into()))
        );
        assert_eq!(
            payload("application/ld+json", b"{}"),
            Ok(Payload::json("{}".into()))
        );
        for (content_type, body, status, says) in [
            ("text/plain", &b"ab\xff"[..], 400, "not UTF-8 at byte 2"),
            ("text/plain; charset=latin1", b"x", 415, "latin1"),
            ("image/png", b"x", 415, "image/png"),
            ("application/json", b"", 400, "not one JSON value"),
            ("application/json", b"1 2", 400, "not one JSON value"),
            ("application/json", b"\"\xff\"", 400, "not one JSON value"),
            (
                "application/json",
                br#"["\ud83d"]"#,
                400,
                "send both halves",
            ),
            ("application/json", &DEEP, 400, "deeper than 128 levels"),
        ] {
            let (found, detail) = payload(content_type, body).unwrap_err();
            assert_eq!(found, status, "{detail}");
            assert!(detail.contains(says), "{detail}");
        }
    }

    #[test]
    fn json_is_put_on_one_line_without_changing_what_it_says() {
        let spread =
            b"{\r\n \"b\" : 1.50e+1 ,\n\t\"a\": [ \"x \\\" \\\\\", 12345678901234567890 ] }\n";
        let line = r#"{"b":1.50e+1,"a":["x \" \\",12345678901234567890]}"#;
        assert_eq!(
            payload("application/json", spread),
            Ok(Payload::json(line.into()))
        );
        // What is on one line already stays as it was written.
        let written = b" { \"a\" : 1 } \n";
        assert_eq!(
            payload("application/json", written),
            Ok(Payload::json("{ \"a\" : 1 }".into()))
        );
    }
}
