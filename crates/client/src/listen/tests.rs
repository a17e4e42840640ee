use super::*;
use crate::decode::websocket;
use std::io::{Read, Write};
use std::net::TcpListener;

/// Serves each script to one connection, closes it, and returns the requests. `{accept}` in a
/// script becomes what opens the WebSocket that was asked for; its characters are bytes.
fn server(scripts: &'static [&'static str]) -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let mut asked = Vec::new();
        for script in scripts {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 2048];
            let count = stream.read(&mut buffer).unwrap();
            let text = String::from_utf8_lossy(&buffer[..count]);
            asked.push(text.to_string());
            let key = text
                .lines()
                .find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
            let accept = websocket::accept(key.unwrap_or_default());
            let script = script.replace("{accept}", &accept);
            let script: Vec<u8> = script.chars().map(|one| one as u8).collect();
            stream.write_all(&script).unwrap();
        }
        asked
    });
    (url, server)
}

fn options(url: String, transport: Transport, ids: &[&str]) -> Options {
    Options {
        url,
        authorities: Authorities::System,
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        credential: None,
        transport,
        start: Start::Live,
        whole: false,
        presence: false,
        seed: 5,
    }
}

fn follow(url: String, transport: Transport, ids: &[&str]) -> (Vec<Notification>, Outcome<()>) {
    follow_from(&options(url, transport, ids))
}

fn follow_from(options: &Options) -> (Vec<Notification>, Outcome<()>) {
    let mut news = Vec::new();
    let outcome = listen(options, &AtomicBool::new(false), |one| {
        news.push(one);
        ControlFlow::Continue(())
    });
    (news, outcome)
}

fn first_line(request: &str) -> &str {
    request.lines().next().unwrap()
}

fn last_id(request: &str) -> Option<&str> {
    request
        .lines()
        .find_map(|line| line.strip_prefix("Last-Event-ID: "))
}

fn texts(news: &[Notification]) -> Vec<String> {
    news.iter()
        .filter_map(|one| match one {
            Notification::Event(event) => Some(event.text()),
            _ => None,
        })
        .collect()
}

#[test]
fn a_client_reconnects_after_a_break_and_ends_after_a_refusal() {
    let (url, server) = server(&[
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 5\n\n\
         id: 1-1\nevent: chat\ndata: one\n\n",
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: two\n\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
    ]);
    let (news, outcome) = follow(url, Transport::Sse, &["r j", "7"]);
    assert_eq!(texts(&news), ["one", "two"]);
    let Notification::Event(first) = &news[1] else {
        panic!("{news:?}")
    };
    assert_eq!(
        (first.id.as_deref(), first.kind.as_deref()),
        (Some("1-1"), Some("chat"))
    );
    assert_eq!(
        news.iter()
            .filter(|one| matches!(one, Notification::Lost(..)))
            .count(),
        3
    );
    assert!(
        outcome
            .unwrap_err()
            .to_string()
            .ends_with("answered 404: none")
    );
    let asked = server.join().unwrap();
    assert_eq!(first_line(&asked[0]), "GET /events/r%20j,7 HTTP/1.1");
    let last_ids: Vec<_> = asked.iter().map(|asked| last_id(asked)).collect();
    assert_eq!(last_ids, [None, Some("1-1"), Some("1-1"), Some("1-1")]);
}

#[test]
fn json_lines_and_chunks_become_events() {
    let (url, handle) = server(&[
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n\
         1c\r\n{\"id\":\"1-2\",\"subject\":7,\"dat\r\n8\r\na\":[1]}\n\r\n0\r\n\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
    ]);
    let (news, _) = follow(url, Transport::Ndjson, &["7"]);
    assert_eq!(texts(&news), ["[1]"]);
    handle.join().unwrap();
    let (url, handle) = server(&[
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nwelcome\r\n3\r\na\nb\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
    ]);
    let (news, _) = follow(url, Transport::Chunks, &["7"]);
    assert_eq!(texts(&news), ["a\nb"]);
    handle.join().unwrap();
}

const SSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const END: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

/// Answers with a head, then each of `bodies`, then a refusal.
fn streams(bodies: &[&str]) -> &'static [&'static str] {
    let mut scripts: Vec<&'static str> = Vec::new();
    for body in bodies {
        scripts.push(format!("{SSE}retry: 2\n\n{body}").leak());
    }
    scripts.push(END);
    scripts.leak()
}

#[test]
fn a_client_continues_after_its_cursor_and_reports_no_event_twice() {
    let (url, server) = server(streams(&[
        "id: k-7\n\nid: k-8\ndata: a\n\nid: k-11-9\ndata: c\n\n",
        "id: k-10\ndata: b\n\nid: k-11\ndata: c\n\nid: k-12\ndata: d\n\n: beat\nid: k-20\n\n",
        "id: k-21\ndata: e\n\n",
    ]));
    let (news, _) = follow(url, Transport::Sse, &["7"]);
    assert_eq!(texts(&news), ["a", "c", "b", "d", "e"]);
    let asked = server.join().unwrap();
    let last_ids: Vec<_> = asked.iter().map(|asked| last_id(asked)).collect();
    assert_eq!(last_ids, [None, Some("k-11-9"), Some("k-20"), Some("k-21")]);
    assert!(news.contains(&Notification::Connected(Some("k-20".to_owned()))));
}

#[test]
fn resets_and_gaps_are_reported_and_are_not_events() {
    let (url, server) = server(streams(&[
        "id: k-8\ndata: a\n\n",
        "event: reset\ndata: {\"reason\":\"unknown\",\"from\":\"k-8\"}\n\nid: k-2\ndata: b\n\n\
         event: gap\ndata: {\"lost\":3}\n\nid: k-3\nevent: gap\ndata: {\"lost\":4}\n\n",
    ]));
    let (news, _) = follow(url, Transport::Sse, &["7"]);
    // After a reset, numbers may begin again below.
    assert_eq!(texts(&news), ["a", "b", "{\"lost\":4}"]);
    let reset = Reset {
        reason: "unknown".to_owned(),
        from: Some("k-8".to_owned()),
    };
    assert!(
        reset
            .to_string()
            .contains("after k-8: the server does not know")
    );
    assert!(news.contains(&Notification::Reset(reset)));
    assert!(news.contains(&Notification::Gap(3)));
    server.join().unwrap();
}

#[test]
fn requests_name_the_start_until_there_is_an_event_id() {
    let start = |start, transport| {
        let (url, server) = server(streams(&["data: none\n\n", "id: k-1\ndata: a\n\n"]));
        let (news, _) = follow_from(&Options {
            start,
            ..options(url, transport, &["7"])
        });
        assert_eq!(texts(&news).len(), 2);
        let asked = server.join().unwrap();
        let asked: Vec<_> = asked
            .iter()
            .map(|asked| format!("{} {:?}", first_line(asked), last_id(asked)))
            .collect();
        asked
    };
    let earliest = "GET /events/7?cursor=earliest HTTP/1.1 None";
    let with_id = "GET /events/7 HTTP/1.1 Some(\"k-1\")";
    assert_eq!(
        start(Start::Earliest, Transport::Sse),
        [earliest, earliest, with_id]
    );
    let rewind = "GET /events/7?rewind=5 HTTP/1.1 None";
    assert_eq!(
        start(Start::Rewind(5), Transport::Sse),
        [rewind, rewind, with_id]
    );
    let given = "GET /events/7 HTTP/1.1 Some(\"k-0\")";
    let after = Start::After("k-0".to_owned());
    assert_eq!(start(after, Transport::Sse), [given, given, with_id]);
}

#[test]
fn whole_events_are_the_same_on_every_transport() {
    let object = "{\"id\":\"k-1\",\"subject\":\"rj\",\"type\":\"chat\",\"data\":\"aGk=\",\
                  \"encoding\":\"base64\"}";
    let length = format!("{:x}", object.len() + 1);
    let event = |transport, scripts: Vec<String>| {
        let scripts: Vec<&'static str> =
            scripts.into_iter().map(|script| &*script.leak()).collect();
        let (url, server) = server(scripts.leak());
        let (news, _) = follow_from(&Options {
            whole: true,
            ..options(url, transport, &["rj"])
        });
        let events: Vec<_> = news
            .into_iter()
            .filter_map(|one| match one {
                Notification::Event(event) => Some(serde_json::to_string(&event).unwrap()),
                _ => None,
            })
            .collect();
        assert_eq!(events, [object], "{transport:?}");
        server.join().unwrap()
    };
    let end = || END.to_owned();
    let sse = format!("{SSE}id: k-1\nevent: chat\ndata: {object}\n\n");
    let asked = event(Transport::Sse, vec![sse, end()]);
    assert_eq!(first_line(&asked[0]), "GET /events/rj?format=json HTTP/1.1");
    let ndjson = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length}\r\n{object}\n\r\n\
         e\r\n{{\"id\":\"k-9\"}}\n\r\n"
    );
    let asked = event(Transport::Ndjson, vec![ndjson, end()]);
    assert_eq!(last_id(&asked[1]), Some("k-9"));
    let size = char::from(object.len() as u8);
    let ws = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {{accept}}\r\n\r\n\
         \u{81}\u{c}{{\"id\":\"k-0\"}}\u{81}{size}{object}\u{89}\u{2}hi\u{88}\u{2}\u{3}\u{e9}"
    );
    let asked = event(Transport::WebSocket, vec![ws, end()]);
    assert_eq!(first_line(&asked[0]), "GET /ws/rj HTTP/1.1");
    assert_eq!(last_id(&asked[1]), Some("k-1"));
    let poll = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n[{object}]",
        object.len() + 2
    );
    let asked = event(Transport::Poll, vec![poll, end()]);
    assert_eq!(first_line(&asked[0]), "GET /poll/rj?wait=25 HTTP/1.1");
}

#[test]
fn polls_reuse_one_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        for answer in [
            "204 No Content\r\nEncke-Cursor: k-5",
            "200 OK\r\nContent-Length: 47\r\n\r\n\
             [{\"id\":\"k-6\",\"data\":1},{\"id\":\"k-9-7\",\"data\":2}]",
            "404 Not Found\r\nContent-Length: 0",
        ] {
            let mut buffer = [0; 2048];
            let count = stream.read(&mut buffer).unwrap();
            asked.push(String::from_utf8_lossy(&buffer[..count]).into_owned());
            let end = if answer.ends_with(']') {
                ""
            } else {
                "\r\n\r\n"
            };
            write!(stream, "HTTP/1.1 {answer}{end}").unwrap();
        }
        asked
    });
    let (news, _) = follow(url, Transport::Poll, &["7"]);
    assert_eq!(texts(&news), ["1", "2"]);
    let asked = server.join().unwrap();
    let asked: Vec<_> = asked.iter().map(|asked| first_line(asked)).collect();
    let poll = |cursor: &str| format!("GET /poll/7?wait=25{cursor} HTTP/1.1");
    assert_eq!(
        asked,
        [poll(""), poll("&cursor=k-5"), poll("&cursor=k-9-7")]
    );
}
