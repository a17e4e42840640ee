//! The verdict on a head does not depend on how its bytes arrived.
//!
//! Two laws say so. A verdict on a prefix, be it a request or a refusal, is the verdict on every
//! continuation of it. And what `seen` skips cannot change a verdict.

use proptest::prelude::*;
use wire::head::{HEAD_BYTES_MAX, HeadError, Request, parse, parse_from};

type Verdict<'a> = Result<Option<Request<'a>>, HeadError>;

/// Parses as a server does, with what has arrived after each piece; stops at the first verdict.
fn parse_at<'a>(input: &'a [u8], ends: &[usize]) -> Verdict<'a> {
    let mut seen = 0;
    for &end in ends {
        match parse_from(&input[..end], seen) {
            Ok(None) => seen = end,
            verdict => return verdict,
        }
    }
    parse_from(input, seen)
}

pub(crate) fn assert_same_at_every_split(input: &[u8]) {
    let whole = parse(input);
    let bytewise: Vec<usize> = (0..input.len()).collect();
    assert_eq!(
        parse_at(input, &bytewise),
        whole,
        "byte by byte: {}",
        input.escape_ascii()
    );
    for at in 0..=input.len() {
        assert_eq!(
            parse_at(input, &[at]),
            whole,
            "split at {at}: {}",
            input.escape_ascii()
        );
    }
}

#[test]
fn heads_parse_alike_at_every_split() {
    let heads: &[&[u8]] = &[
        b"GET /stream/42 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"\r\n\r\nGET /a?b HTTP/1.0\r\n\r\nGET /b HTTP/1.1\r\n",
        b"\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\nX: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nVia: 1.1 a\r\n\r\n",
        b"GET / HTTP/1.1\r\nForwarded: for=a\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: a\r\n\r\n",
    ];
    for head in heads {
        assert_same_at_every_split(head);
    }
}

/// The limits are where a whole input and its pieces could most easily come to differ: every kind
/// of fault, at each distance around each limit.
#[test]
fn faults_around_a_limit_get_one_verdict() {
    for (prefix, limit) in [
        ("GET /", 4096 + 64),
        ("GET / HTTP/1.1\r\nX: ", HEAD_BYTES_MAX),
    ] {
        for fault in [
            "\r\n\r\n",
            "\rx",
            "\nx",
            "\0",
            "\r\r\n",
            " HTTP/1.0\r\n\r\n",
        ] {
            for length in limit - 20..limit + 4 {
                let mut input = prefix.as_bytes().to_vec();
                input.resize(length, b'x');
                input.extend_from_slice(fault.as_bytes());
                input.extend_from_slice(&[b'y'; 8]);
                let whole = parse(&input);
                for at in length - 4..input.len() {
                    let found = parse_at(&input, &[at]);
                    assert_eq!(found, whole, "{prefix:?} {length} {fault:?} split at {at}");
                    let found = parse_at(&input, &[at, at + 1]);
                    assert_eq!(found, whole, "{prefix:?} {length} {fault:?} byte at {at}");
                }
            }
        }
    }
}

/// Pieces of heads, good and bad, that random concatenation turns into nearly-heads.
fn nearly_a_head() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => prop::sample::select(vec![
            "GET / HTTP/1.1\r\n", "POST /a?b=c HTTP/1.0\r\n", "GET ", "/ ", "HTTP/1.1", "\r\n",
            "\r\n\r\n",
            "Host: h\r\n", "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "X: y\r\n",
            "Connection: close\r\n", "http://h/ ", "\r", "\n", "\0", " ", ":", "\t", "\x16\x03",
            "é",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..8),
        1 => (4000_usize..4300).prop_map(|count| vec![b'x'; count]),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn random_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..600), seen: usize) {
        let _ = parse(&input);
        let _ = parse_from(&input, seen);
    }

    #[test]
    fn three_pieces_give_the_verdict_of_one(
        input in nearly_a_head(), first: prop::sample::Index, second: prop::sample::Index,
    ) {
        let (first, second) = (first.index(input.len() + 1), second.index(input.len() + 1));
        let ends = [first.min(second), first.max(second)];
        prop_assert_eq!(parse_at(&input, &ends), parse(&input));
    }

    #[test]
    fn a_verdict_on_a_prefix_is_the_verdict_on_all_that_follow(
        input in nearly_a_head(), more in nearly_a_head(),
    ) {
        let whole = [input.as_slice(), &more].concat();
        match parse(&input) {
            Ok(None) => {}
            verdict => prop_assert_eq!(parse(&whole), verdict),
        }
    }

    #[test]
    fn a_full_head_buffer_always_gets_a_verdict(input in nearly_a_head()) {
        let mut full = input;
        full.resize(HEAD_BYTES_MAX, b'x');
        prop_assert!(!matches!(parse(&full), Ok(None)));
    }

    #[test]
    fn a_request_consumes_what_it_was_parsed_from(input in nearly_a_head()) {
        if let Ok(Some(request)) = parse(&input) {
            prop_assert!(input[..request.consumed].ends_with(b"\r\n\r\n"));
            prop_assert_eq!(parse(&input[..request.consumed]), Ok(Some(request)));
            prop_assert_eq!(parse(&input[..request.consumed - 1]), Ok(None));
        }
    }
}
