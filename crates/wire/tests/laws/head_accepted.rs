//! What a head means when it is accepted.

use wire::head::{Body, HEAD_BYTES_MAX, Method, Request, TARGET_BYTES_MAX, Version, parse};

fn accept(head: &str) -> Request<'_> {
    match parse(head.as_bytes()) {
        Ok(Some(request)) => request,
        other => panic!("{head:?} gave {other:?}"),
    }
}

#[test]
fn every_part_of_a_head_is_found() {
    let head = "GET /events/a,b%2Cc?id=d&x HTTP/1.1\r\nHost: example.org:8000\r\n\
                Accept: text/event-stream\r\nORIGIN:https://a.example \r\n\
                expect: 100-Continue\r\nLast-Event-ID: e-7\r\n\r\nGET";
    let request = accept(head);
    assert_eq!(
        request,
        Request {
            method: Method::Get,
            version: Version::Http11,
            path: "/events/a,b%2Cc",
            query: Some("id=d&x"),
            host: Some("example.org:8000"),
            origin: Some("https://a.example"),
            forwarded: false,
            last_event_id: Some("e-7"),
            expects_continue: true,
            keep_alive: true,
            body: Body::None,
            consumed: head.len() - 3,
            lines: request.lines,
        }
    );
}

#[test]
fn pipelined_heads_come_one_after_the_other() {
    let input = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n";
    let first = parse(input).unwrap().unwrap();
    let second = parse(&input[first.consumed..]).unwrap().unwrap();
    assert_eq!((first.path, second.path), ("/a", "/b"));
    assert_eq!(first.consumed + second.consumed, input.len());
}

#[test]
fn every_method_has_its_name_and_case_matters() {
    let methods = [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("OPTIONS", Method::Options),
        ("POST", Method::Post),
        ("PUT", Method::Put),
        ("DELETE", Method::Delete),
        ("CONNECT", Method::Connect),
        ("PATCH", Method::Other),
        ("get", Method::Other),
    ];
    for (name, method) in methods {
        assert_eq!(
            accept(&format!("{name} / HTTP/1.1\r\nHost: h\r\n\r\n")).method,
            method
        );
    }
}

#[test]
fn a_target_has_four_forms() {
    let path = |line: &str| {
        let head = format!("{line} HTTP/1.1\r\nHost: h:1\r\n\r\n");
        let request = accept(&head);
        (request.path.to_owned(), request.query.map(str::to_owned))
    };
    let of = |path: &str, query: Option<&str>| (path.to_owned(), query.map(str::to_owned));
    assert_eq!(path("GET /a?b?c"), of("/a", Some("b?c")));
    assert_eq!(path("GET /?"), of("/", Some("")));
    assert_eq!(path("GET //h/a"), of("//h/a", None));
    assert_eq!(path("GET http://h:1/a?b"), of("/a", Some("b")));
    assert_eq!(path("GET HTTP://H:1"), of("/", None));
    assert_eq!(path("GET http://h:1?b"), of("/", Some("b")));
    assert_eq!(path("OPTIONS *"), of("*", None));
    assert_eq!(path("CONNECT h:1"), of("h:1", None));
    assert_eq!(path("GET /é"), of("/é", None));
}

#[test]
fn a_connection_stays_open_as_its_version_and_options_say() {
    let cases = [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: Upgrade , Close\r\n", false),
        (
            "1.1",
            "Connection: keep-alive\r\nConnection: close\r\n",
            false,
        ),
        ("1.1", "Connection: closed\r\n", true),
        ("1.2", "", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ];
    for (version, fields, open) in cases {
        let head = format!("GET / HTTP/{version}\r\nHost: h\r\n{fields}\r\n");
        assert_eq!(accept(&head).keep_alive, open, "{head:?}");
    }
}

#[test]
fn a_request_that_a_proxy_passed_on_is_known() {
    let forwarded =
        |fields: &str| accept(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).forwarded;
    assert!(!forwarded("X-Forwarded: a\r\nForwarding: a\r\nVary: a\r\n"));
    for field in [
        "Via: 1.1 proxy",
        "VIA:",
        "Forwarded: for=192.0.2.1",
        "X-Forwarded-For: 192.0.2.1",
        "x-forwarded-proto:",
        "X-FORWARDED-ANYTHING: a",
    ] {
        assert!(forwarded(&format!("{field}\r\n")), "{field}");
        assert!(
            forwarded(&format!("A: b\r\n{field}\r\nC: d\r\n")),
            "{field}"
        );
    }
}

#[test]
fn http_1_0_needs_no_host_and_an_empty_one_is_a_host() {
    assert_eq!(accept("GET / HTTP/1.0\r\n\r\n").host, None);
    assert_eq!(accept("GET / HTTP/1.1\r\nHost:\r\n\r\n").host, Some(""));
    assert_eq!(
        accept("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").host,
        Some("[::1]:80")
    );
}

#[test]
fn a_body_is_delimited_by_one_length_or_by_chunked() {
    let body = |fields: &str| accept(&format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).body;
    assert_eq!(body(""), Body::None);
    assert_eq!(body("Content-Length: 0\r\n"), Body::None);
    assert_eq!(body("Content-Length: 007\r\n"), Body::Sized(7));
    assert_eq!(
        body("Content-Length: 18446744073709551615\r\n"),
        Body::Sized(u64::MAX)
    );
    assert_eq!(body("Transfer-Encoding: Chunked\r\n"), Body::Chunked);
}

#[test]
fn the_longest_head_field_count_and_target_are_accepted() {
    let filler = HEAD_BYTES_MAX - "GET / HTTP/1.1\r\nHost: h\r\nX: \r\n\r\n".len();
    let longest = format!(
        "GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n",
        "x".repeat(filler)
    );
    assert_eq!(accept(&longest).consumed, HEAD_BYTES_MAX);

    let most = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "a: b\r\n".repeat(63));
    assert_eq!(accept(&most).host, Some("h"));

    let target = format!("/{}", "t".repeat(TARGET_BYTES_MAX - 1));
    let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(accept(&head).path, target);
}

#[test]
fn two_empty_lines_before_a_request_are_ignored() {
    assert_eq!(accept("\r\n\r\nGET / HTTP/1.0\r\n\r\n").consumed, 22);
}
