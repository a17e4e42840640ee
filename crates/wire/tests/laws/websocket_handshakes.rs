//! The handshake says what RFC 6455 asks for, and refuses everything else.

use wire::head;
use wire::websocket::{HandshakeError, check};

/// Returns the request of RFC 6455, section 1.3, with one text in it replaced.
fn verdict(from: &str, to: &str) -> Result<String, HandshakeError> {
    let request = "GET /chat HTTP/1.1\r\n\
        Host: server.example.com\r\n\
        Upgrade: websocket\r\n\
        Connection: Upgrade\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Origin: http://example.com\r\n\
        Sec-WebSocket-Protocol: chat, superchat\r\n\
        Sec-WebSocket-Extensions: permessage-deflate\r\n\
        Sec-WebSocket-Version: 13\r\n\r\n";
    assert!(request.contains(from), "{from}");
    let request = request.replacen(from, to, 1);
    let request = head::parse(request.as_bytes())
        .expect("a head")
        .expect("a whole head");
    check(&request).map(|accept| accept.as_str().to_owned())
}

#[test]
fn the_sample_of_the_rfc_has_the_answer_of_the_rfc() {
    let accept = verdict("", "").unwrap();
    assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

#[test]
fn tokens_are_found_in_lists_and_in_any_case() {
    for (from, to) in [
        ("Upgrade: websocket", "Upgrade: foo/1, WebSocket"),
        ("Upgrade: websocket", "Upgrade: foo/1\r\nUpgrade: WEBSOCKET"),
        ("Connection: Upgrade", "Connection: keep-alive, upgrade"),
        (
            "Connection: Upgrade",
            "Connection: keep-alive\r\nconnection: UPGRADE",
        ),
    ] {
        assert!(verdict(from, to).is_ok(), "{to}");
    }
}

#[test]
fn each_missing_or_wrong_part_has_its_error() {
    const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (from, to, error) in [
        ("GET", "POST", HandshakeError::NotGet11),
        ("HTTP/1.1", "HTTP/1.0", HandshakeError::NotGet11),
        ("Upgrade: websocket\r\n", "", HandshakeError::Upgrade),
        (
            "Upgrade: websocket",
            "Upgrade: h2c",
            HandshakeError::Upgrade,
        ),
        (
            "Upgrade: websocket",
            "Upgrade: websockets",
            HandshakeError::Upgrade,
        ),
        ("Connection: Upgrade\r\n", "", HandshakeError::Connection),
        (
            "Connection: Upgrade",
            "Connection: close",
            HandshakeError::Connection,
        ),
        ("Host", "Content-Length: 5\r\nHost", HandshakeError::Body),
        (
            "Host",
            "Transfer-Encoding: chunked\r\nHost",
            HandshakeError::Body,
        ),
        ("Version: 13", "Version: 8", HandshakeError::Version),
        (
            "Version: 13",
            "Version: 13\r\nSec-WebSocket-Version: 13",
            HandshakeError::Version,
        ),
        ("Sec-WebSocket-Version: 13\r\n", "", HandshakeError::Version),
        (KEY, "", HandshakeError::Key),
        (KEY, "Sec-WebSocket-Key:\r\n", HandshakeError::Key),
        ("bXBsZSBub25jZQ==", "bXBsZSBub25j", HandshakeError::Key),
        ("bXBsZSBub25jZQ==", "bXBsZSBub25jZWU=", HandshakeError::Key),
        (
            "bXBsZSBub25jZQ==",
            "bXBsZSBub25jZWVlZWVl",
            HandshakeError::Key,
        ),
        ("bXBsZSBub25jZQ==", "bXBsZSBub25jZQ", HandshakeError::Key),
        ("bXBsZSBub25jZQ==", "bXBsZSBub25jZR==", HandshakeError::Key),
        ("dGhl", "d!hl", HandshakeError::Key),
        (
            "Origin",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin",
            HandshakeError::Key,
        ),
    ] {
        assert_eq!(verdict(from, to), Err(error), "{from} became {to}");
    }
}

#[test]
fn what_is_not_an_upgrade_is_told_to_upgrade() {
    for error in [
        HandshakeError::Upgrade,
        HandshakeError::Connection,
        HandshakeError::Version,
    ] {
        assert_eq!(error.status().code(), 426);
    }
    assert_eq!(HandshakeError::Key.status().code(), 400);
}
