use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use super::*;

/// Returns a server that answers each request of one connection with the next script, a byte at a
/// time, and returns what it was asked.
fn scripted(scripts: &'static [&'static str]) -> (Url, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        let mut asked = Vec::new();
        for script in scripts {
            asked.push(request(&mut reader));
            for byte in script.bytes() {
                writer.write_all(&[byte]).unwrap();
            }
        }
        asked
    });
    (url, server)
}

fn request(reader: &mut impl BufRead) -> String {
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        assert_ne!(
            reader.read_line(&mut text).unwrap(),
            0,
            "the client left: {text}"
        );
    }
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    if text.contains("chunked") {
        while !text.ends_with("0\r\n\r\n") {
            reader.read_line(&mut text).unwrap();
        }
    }
    text + std::str::from_utf8(&body).unwrap()
}

#[test]
fn one_connection_serves_several_exchanges() {
    let (url, server) = scripted(&[
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\nno such id",
    ]);
    let mut connection = Connection::open(&url, None).unwrap();
    let mut get = |payload| {
        let (answer, body) = connection
            .exchange("POST", "/x", &[("A", "b")], payload)
            .unwrap();
        (
            answer.status,
            String::from_utf8(body).unwrap(),
            connection.must_close(),
        )
    };
    assert_eq!(
        get(RequestBody::Bytes(b"body")),
        (200, "hello".to_owned(), false)
    );
    assert_eq!(get(RequestBody::None), (200, "abcde".to_owned(), false));
    assert_eq!(get(RequestBody::None), (404, "no such id".to_owned(), true));
    let asked = server.join().unwrap();
    assert!(asked[0].starts_with("POST /x HTTP/1.1\r\nHost: 127.0.0.1:"));
    assert!(asked[0].ends_with("A: b\r\nContent-Length: 4\r\n\r\nbody"));
}

#[test]
fn a_chunked_request_is_written_in_chunks() {
    let (url, server) = scripted(&["HTTP/1.1 204 No Content\r\n\r\n"]);
    let mut connection = Connection::open(&url, None).unwrap();
    connection
        .write("POST", "/x", &[], RequestBody::Chunked)
        .unwrap();
    let mut chunks = connection.chunks().unwrap();
    chunks.write_all(b"one\n").unwrap();
    chunks.write_all(b"two\n").unwrap();
    chunks.finish().unwrap();
    assert_eq!(connection.read_head().unwrap().status, 204);
    let asked = server.join().unwrap();
    assert!(
        asked[0].ends_with("\r\n\r\n8\r\none\ntwo\n\r\n0\r\n\r\n"),
        "{}",
        asked[0]
    );
}

#[test]
fn a_body_cut_short_is_an_error() {
    let (url, server) = scripted(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"]);
    let mut connection = Connection::open(&url, None).unwrap();
    let error = connection
        .exchange("GET", "/", &[], RequestBody::None)
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    server.join().unwrap();
}
