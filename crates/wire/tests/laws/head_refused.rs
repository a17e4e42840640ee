//! Bad heads, each with the verdict it deserves.

use wire::head::{FIELDS_MAX, HEAD_BYTES_MAX, HeadError, TARGET_BYTES_MAX, parse};

/// Heads whose fault is in the bytes or the request line.
const LINES: &[(&str, HeadError, u16)] = &[
    (
        "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03",
        HeadError::Tls,
        400,
    ),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HeadError::Http2, 505),
    ("GET / HTTP/2.0\r\n\r\n", HeadError::Version, 505),
    ("GET / HTTP/0.9\r\n\r\n", HeadError::Version, 505),
    ("GET /\r\n\r\n", HeadError::RequestLine, 400),
    ("GET / HTTP/1.1 \r\n\r\n", HeadError::RequestLine, 400),
    ("GET  / HTTP/1.1\r\n\r\n", HeadError::RequestLine, 400),
    (" GET / HTTP/1.1\r\n\r\n", HeadError::RequestLine, 400),
    ("GET\t/\tHTTP/1.1\r\n\r\n", HeadError::RequestLine, 400),
    ("GET / http/1.1\r\n\r\n", HeadError::RequestLine, 400),
    ("GET / HTTP/1.10\r\n\r\n", HeadError::RequestLine, 400),
    ("GET / HTTP/1\r\n\r\n", HeadError::RequestLine, 400),
    ("G(T / HTTP/1.1\r\n\r\n", HeadError::RequestLine, 400),
    ("{\"json\":1}", HeadError::RequestLine, 400),
    (
        "\r\n\r\n\r\nGET / HTTP/1.1\r\n",
        HeadError::RequestLine,
        400,
    ),
    ("GET / a HTTP/1.1\r\n\r\n", HeadError::RequestLine, 400),
    ("GET a HTTP/1.1\r\n\r\n", HeadError::Target, 400),
    ("GET * HTTP/1.1\r\n\r\n", HeadError::Target, 400),
    ("GET ftp://h/ HTTP/1.1\r\n\r\n", HeadError::Target, 400),
    ("GET /a#b HTTP/1.1\r\n\r\n", HeadError::Target, 400),
    ("GET /a\x01 HTTP/1.1\r\n\r\n", HeadError::Target, 400),
    ("GET /a\x7f HTTP/1.1\r\n\r\n", HeadError::Target, 400),
    ("GET / HTTP/1.1\nHost: h\n\n", HeadError::BareLineFeed, 400),
    ("\nGET / HTTP/1.1\r\n", HeadError::BareLineFeed, 400),
    ("\rGET / HTTP/1.1\r\n", HeadError::BareCarriageReturn, 400),
    ("GET /\rX HTTP/1.1\r\n", HeadError::BareCarriageReturn, 400),
    ("GET /\0 HTTP/1.1\r\n", HeadError::Nul, 400),
    ("\0", HeadError::Nul, 400),
    ("GET / HTTP/1.1\r\n\r\n", HeadError::HostMissing, 400),
    ("GET http://h/ HTTP/1.0\r\n\r\n", HeadError::OtherHost, 400),
];

/// Field lines that spoil `POST / HTTP/1.1` with `Host: h`.
const FIELDS: &[(&str, HeadError, u16)] = &[
    ("X: a\nY: b\r\n", HeadError::BareLineFeed, 400),
    ("X: a\rY: b\r\n", HeadError::BareCarriageReturn, 400),
    ("X: a\r\r\n", HeadError::BareCarriageReturn, 400),
    ("X: a\0\r\n", HeadError::Nul, 400),
    ("X: a\x01\r\n", HeadError::FieldValue, 400),
    ("X: a\x7f\r\n", HeadError::FieldValue, 400),
    ("X : a\r\n", HeadError::SpaceBeforeColon, 400),
    ("X\t: a\r\n", HeadError::SpaceBeforeColon, 400),
    ("Content-Length : 5\r\n", HeadError::SpaceBeforeColon, 400),
    ("X: a\r\n b\r\n", HeadError::Folded, 400),
    ("X: a\r\n\tb\r\n", HeadError::Folded, 400),
    (" X: a\r\n", HeadError::Folded, 400),
    (": a\r\n", HeadError::FieldName, 400),
    ("X\r\n", HeadError::FieldName, 400),
    ("X Y: a\r\n", HeadError::FieldName, 400),
    ("(X): a\r\n", HeadError::FieldName, 400),
    ("é: a\r\n", HeadError::FieldName, 400),
    ("Host: h\r\n", HeadError::HostRepeated, 400),
    ("Host: other\r\n", HeadError::HostRepeated, 400),
    (
        "Origin: http://a\r\nOrigin: http://b\r\n",
        HeadError::OriginRepeated,
        400,
    ),
    (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        HeadError::TwoLengths,
        400,
    ),
    (
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        HeadError::TwoLengths,
        400,
    ),
    (
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        HeadError::TwoLengths,
        400,
    ),
    (
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        HeadError::ContentLengthRepeated,
        400,
    ),
    (
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        HeadError::ContentLengthRepeated,
        400,
    ),
    (
        "Content-Length: 0\r\ncontent-length: 0\r\n",
        HeadError::ContentLengthRepeated,
        400,
    ),
    (
        "Content-Length: 5, 5\r\n",
        HeadError::ContentLengthRepeated,
        400,
    ),
    ("Content-Length:\r\n", HeadError::ContentLengthInvalid, 400),
    (
        "Content-Length: +5\r\n",
        HeadError::ContentLengthInvalid,
        400,
    ),
    (
        "Content-Length: -5\r\n",
        HeadError::ContentLengthInvalid,
        400,
    ),
    (
        "Content-Length: 0x5\r\n",
        HeadError::ContentLengthInvalid,
        400,
    ),
    (
        "Content-Length: 5 5\r\n",
        HeadError::ContentLengthInvalid,
        400,
    ),
    (
        "Content-Length: 18446744073709551616\r\n",
        HeadError::ContentLengthInvalid,
        400,
    ),
    (
        "Transfer-Encoding:\r\n",
        HeadError::TransferEncodingInvalid,
        400,
    ),
    (
        "Transfer-Encoding: identity\r\n",
        HeadError::TransferEncodingInvalid,
        400,
    ),
    (
        "Transfer-Encoding: xchunked\r\n",
        HeadError::TransferEncodingInvalid,
        400,
    ),
    (
        "Transfer-Encoding: chunked, gzip\r\n",
        HeadError::TransferEncodingInvalid,
        400,
    ),
    (
        "Transfer-Encoding: chunked, chunked\r\n",
        HeadError::TransferEncodingInvalid,
        400,
    ),
    (
        "Transfer-Encoding: ,chunked\r\n",
        HeadError::TransferEncodingInvalid,
        400,
    ),
    (
        "Transfer-Encoding: \"chunked\"\r\n",
        HeadError::TransferEncodingInvalid,
        400,
    ),
    (
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        HeadError::TransferEncodingInvalid,
        400,
    ),
    (
        "Transfer-Encoding: gzip, chunked\r\n",
        HeadError::TransferEncodingUnknown,
        501,
    ),
];

/// Values of `Host` that are not a host and a port.
const HOSTS: &[&str] = &[
    "a b", "a/b", "a@b", "a:b", "a:1:2", "::1", "[::1", "[::1]1", "[]", "[x]", "a?b", "é", "a\\b",
];

fn refused(head: &[u8]) -> HeadError {
    match parse(head) {
        Err(error) => error,
        other => panic!("{:?} gave {other:?}", String::from_utf8_lossy(head)),
    }
}

#[test]
fn each_bad_head_gets_its_verdict_and_status() {
    let whole = LINES
        .iter()
        .map(|&(head, error, status)| (head.to_owned(), error, status));
    let fields = FIELDS.iter().map(|&(lines, error, status)| {
        (
            format!("POST / HTTP/1.1\r\nHost: h\r\n{lines}\r\n"),
            error,
            status,
        )
    });
    for (head, error, status) in whole.chain(fields) {
        assert_eq!(refused(head.as_bytes()), error, "{head:?}");
        assert_eq!(error.status().code(), status, "{head:?}");
    }
    let http10 = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refused(http10), HeadError::TransferEncodingOnHttp10);
}

#[test]
fn a_host_is_a_host_and_perhaps_a_port() {
    for host in HOSTS {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(refused(head.as_bytes()), HeadError::HostInvalid, "{host:?}");
    }
}

#[test]
fn a_target_may_not_name_another_host() {
    for authority in ["other", "h:80", "h:", "user@h", "hh", ""] {
        let head = format!("GET http://{authority}/ HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(
            refused(head.as_bytes()),
            HeadError::OtherHost,
            "{authority:?}"
        );
    }
}

#[test]
fn one_more_than_each_limit_is_refused_with_its_status() {
    let long = format!(
        "GET / HTTP/1.1\r\nHost: h\r\nX: {}",
        "x".repeat(HEAD_BYTES_MAX)
    );
    assert_eq!(refused(long.as_bytes()), HeadError::TooLong);
    let filler = HEAD_BYTES_MAX + 1 - "GET / HTTP/1.1\r\nHost: h\r\nX: \r\n\r\n".len();
    let by_one = format!(
        "GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n",
        "x".repeat(filler)
    );
    assert_eq!(refused(by_one.as_bytes()), HeadError::TooLong);
    assert_eq!(HeadError::TooLong.status().code(), 431);

    let many = format!(
        "GET / HTTP/1.1\r\nHost: h\r\n{}\r\n",
        "a: b\r\n".repeat(FIELDS_MAX)
    );
    assert_eq!(refused(many.as_bytes()), HeadError::TooManyFields);
    assert_eq!(HeadError::TooManyFields.status().code(), 431);

    let target = format!(
        "GET /{} HTTP/1.1\r\nHost: h\r\n\r\n",
        "t".repeat(TARGET_BYTES_MAX)
    );
    assert_eq!(refused(target.as_bytes()), HeadError::TargetTooLong);
    let endless = format!("GET /{}", "t".repeat(HEAD_BYTES_MAX));
    assert_eq!(refused(endless.as_bytes()), HeadError::TargetTooLong);
    assert_eq!(HeadError::TargetTooLong.status().code(), 414);
}

#[test]
fn a_target_or_read_field_that_is_not_utf8_is_refused() {
    assert_eq!(
        refused(b"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n"),
        HeadError::Target
    );
    let head = b"GET / HTTP/1.1\r\nHost: h\r\nLast-Event-ID: \xff\r\n\r\n";
    assert_eq!(refused(head), HeadError::FieldValue);
    let unread = b"GET / HTTP/1.1\r\nHost: h\r\nX: \xff\r\n\r\n";
    assert!(
        parse(unread).unwrap().is_some(),
        "fields that nobody reads may be Latin-1"
    );
}

#[test]
fn an_error_in_the_first_bytes_is_reported_without_further_input() {
    assert_eq!(refused(b"\x16"), HeadError::Tls);
    assert_eq!(refused(b"GET /\n"), HeadError::BareLineFeed);
    assert_eq!(refused(b"GET /\r\n"), HeadError::RequestLine);
    assert_eq!(refused(b"GET / HTTP/3.0\r\n"), HeadError::Version);
}

#[test]
fn every_reason_is_one_sentence_and_names_its_limit() {
    let errors = LINES.iter().chain(FIELDS).map(|&(_, error, _)| error);
    for error in errors {
        let reason = error.reason();
        assert!(
            reason.ends_with('.') && !reason.contains('\n'),
            "{reason:?}"
        );
    }
    assert!(
        HeadError::TooLong
            .reason()
            .contains(&HEAD_BYTES_MAX.to_string())
    );
    assert!(
        HeadError::TooManyFields
            .reason()
            .contains(&FIELDS_MAX.to_string())
    );
    assert!(
        HeadError::TargetTooLong
            .reason()
            .contains(&TARGET_BYTES_MAX.to_string())
    );
}
