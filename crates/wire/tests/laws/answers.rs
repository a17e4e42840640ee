//! Response heads say what they must, and end where they say.

use wire::head::Version;
use wire::response::{Cors, full, http_date, stream_head};
use wire::status::Status;
use wire::transport::{Framing, Transport};

const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

/// Returns a response taken apart: status line, fields, and what follows the blank line.
fn take_apart(bytes: &[u8]) -> (String, Vec<(String, String)>, Vec<u8>) {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a blank line");
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head is text");
    let mut lines = head.split("\r\n");
    let status = lines.next().expect("a status line").to_owned();
    let fields = lines
        .map(|line| line.split_once(": ").expect("a name and a value"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    (status, fields, bytes[end + 4..].to_vec())
}

fn value<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = fields
        .iter()
        .filter(|(found, _)| found == name)
        .map(|(_, value)| &**value);
    let first = values.next();
    assert_eq!(values.next(), None, "{name} comes once");
    first
}

#[test]
fn a_stream_head_names_its_type_its_framing_and_keeps_proxies_from_holding_it() {
    for transport in Transport::ALL {
        for framing in [Framing::Chunked, Framing::Close] {
            let mut out = b"before".to_vec();
            stream_head(transport, framing, None, DATE, Cors::default(), &mut out);
            let (status, fields, rest) = take_apart(&out[6..]);
            assert_eq!(status, "HTTP/1.1 200 OK");
            assert_eq!(rest, b"");
            assert_eq!(
                value(&fields, "Content-Type"),
                Some(transport.content_type())
            );
            assert!(
                value(&fields, "Cache-Control")
                    .unwrap()
                    .contains("no-store")
            );
            assert_eq!(value(&fields, "X-Accel-Buffering"), Some("no"));
            assert_eq!(
                value(&fields, "Date"),
                Some("Sun, 06 Nov 1994 08:49:37 GMT")
            );
            assert_eq!(value(&fields, "Content-Length"), None);
            let (coding, connection) = match framing {
                Framing::Chunked => (Some("chunked"), None),
                Framing::Close => (None, Some("close")),
                Framing::WebSocket => panic!("no content of HTTP"),
            };
            assert_eq!(value(&fields, "Transfer-Encoding"), coding);
            assert_eq!(value(&fields, "Connection"), connection);
            assert_eq!(value(&fields, "Vary"), None);
        }
    }
}

/// The wire of 2008 is labelled HTML and carries ids and payloads as they are: a link to
/// `/test/<script>` must not run in a browser with this server's origin.
#[test]
fn the_wire_of_2008_is_sandboxed() {
    let mut out = Vec::new();
    stream_head(
        Transport::Test,
        Framing::Chunked,
        None,
        DATE,
        Cors::default(),
        &mut out,
    );
    assert_eq!(
        value(&take_apart(&out).1, "Content-Security-Policy"),
        Some("sandbox")
    );
}

#[test]
fn cross_origin_fields_are_those_asked_for() {
    let cors = Cors {
        allow_origin: Some("https://a.example"),
        allow_credentials: false,
        vary: true,
    };
    let mut out = Vec::new();
    stream_head(Transport::Sse, Framing::Chunked, None, DATE, cors, &mut out);
    let (_, fields, _) = take_apart(&out);
    assert_eq!(
        value(&fields, "Access-Control-Allow-Origin"),
        Some("https://a.example")
    );
    assert_eq!(value(&fields, "Vary"), Some("Origin"));
}

#[test]
fn a_full_answer_has_the_length_of_its_body_also_when_the_body_stays_away() {
    for head_only in [false, true] {
        let (body, cors) = (b"no such path\n", Cors::default());
        let extra = [("Allow", "GET, HEAD")];
        let mut out = Vec::new();
        full(
            Status::NOT_FOUND,
            "text/plain",
            &extra,
            body,
            head_only,
            true,
            Version::Http11,
            DATE,
            cors,
            &mut out,
        );
        let (status, fields, rest) = take_apart(&out);
        assert_eq!(status, "HTTP/1.1 404 Not Found");
        assert_eq!(value(&fields, "Content-Length"), Some("13"));
        assert_eq!(value(&fields, "Content-Type"), Some("text/plain"));
        assert_eq!(value(&fields, "Allow"), Some("GET, HEAD"));
        assert_eq!(rest, if head_only { b"".as_slice() } else { body });
    }
}

#[test]
fn a_204_has_neither_length_nor_body() {
    let mut out = Vec::new();
    let (cors, version) = (Cors::default(), Version::Http11);
    full(
        Status::NO_CONTENT,
        "",
        &[],
        b"",
        false,
        true,
        version,
        DATE,
        cors,
        &mut out,
    );
    let (status, fields, rest) = take_apart(&out);
    assert_eq!(status, "HTTP/1.1 204 No Content");
    assert_eq!(value(&fields, "Content-Length"), None);
    assert_eq!(value(&fields, "Content-Type"), None);
    assert_eq!(rest, b"");
}

#[test]
fn the_connection_field_is_left_out_only_where_http_1_1_keeps_alive() {
    let cases = [
        (Version::Http11, true, None),
        (Version::Http11, false, Some("close")),
        (Version::Http10, true, Some("keep-alive")),
        (Version::Http10, false, Some("close")),
    ];
    for (version, keep_alive, expected) in cases {
        let (mut out, cors) = (Vec::new(), Cors::default());
        full(
            Status::OK,
            "",
            &[],
            b"",
            false,
            keep_alive,
            version,
            DATE,
            cors,
            &mut out,
        );
        assert_eq!(value(&take_apart(&out).1, "Connection"), expected);
    }
}

#[test]
fn every_status_has_three_digits_and_a_phrase_of_its_own() {
    for pair in Status::ALL.windows(2) {
        assert!(pair[0] < pair[1]);
        assert_ne!(pair[0].phrase(), pair[1].phrase());
    }
    for status in Status::ALL {
        assert!((100..600).contains(&status.code()) && !status.phrase().is_empty());
    }
}

#[test]
fn dates_agree_with_a_calendar_walked_day_by_day() {
    const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    const MONTHS: [(&str, u32); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    let leap = |year: u32| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut month, mut day, mut weekday) = (1970, 0, 1, 3);
    // To the year 2500: past three centuries without a leap day and two with one.
    for days in 0..194_000_u64 {
        let clock = days * 7_919 % 86_400;
        let expected = format!(
            "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
            WEEKDAYS[weekday],
            MONTHS[month].0,
            clock / 3600,
            clock / 60 % 60,
            clock % 60
        );
        assert_eq!(
            http_date(days * 86_400 + clock).as_slice(),
            expected.as_bytes()
        );
        weekday = (weekday + 1) % 7;
        day += 1;
        if day > MONTHS[month].1 + u32::from(month == 1 && leap(year)) {
            (day, month) = (1, month + 1);
        }
        if month == 12 {
            (month, year) = (0, year + 1);
        }
    }
    assert_eq!(&http_date(784_111_777), DATE);
    assert_eq!(&http_date(u64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
}
