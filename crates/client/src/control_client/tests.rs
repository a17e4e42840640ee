use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::*;

/// Returns a control listener that answers every request on every connection with `answer`.
fn listener(answer: &'static str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let count = stream.read(&mut buffer).unwrap();
            asked.extend_from_slice(&buffer[..count]);
            let text = String::from_utf8_lossy(&asked);
            let chunked = text.contains("chunked");
            if count == 0
                || (chunked && text.ends_with("0\r\n\r\n"))
                || (!chunked && text.contains("\r\n\r\n"))
            {
                break;
            }
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(asked).unwrap()
    });
    (url, server)
}

const RECEIPT: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
    Content-Length: 80\r\n\r\n\
    {\"id\":\"1-1\",\"subscribers\":3,\"online\":2,\"written\":2,\"queued\":0,\
    \"shed\":0}          ";

#[test]
fn a_publish_names_its_subject_type_and_token() {
    let (url, server) = listener(RECEIPT);
    let mut control = ControlClient::new(&url, Some("secret")).unwrap();
    let labels = EventMetadata {
        content_type: Some("application/json"),
        kind: Some("a b"),
    };
    let receipt = control.publish("r/j", b"", labels).unwrap();
    assert_eq!(
        (receipt.id.as_str(), receipt.subscribers, receipt.online),
        ("1-1", 3, 2)
    );
    let asked = server.join().unwrap();
    assert!(
        asked.starts_with("POST /v1/publish/r%2Fj?type=a%20b HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(asked.contains("\r\nAuthorization: Bearer secret\r\n"));
    assert!(asked.contains("\r\nContent-Type: application/json\r\n"));
}

#[test]
fn lines_become_events_and_receipts_come_back() {
    let (url, server) = listener(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
         8\r\n{\"id\":1}\r\n1\r\n\n\r\n9\r\n{\"id\":2}\n\r\n0\r\n\r\n",
    );
    let mut control = ControlClient::new(&url, None).unwrap();
    let mut receipts = Vec::new();
    let count = control
        .publish_lines("7", None, &b"one\ntw\"o\r\n"[..], |value| {
            receipts.push(value)
        })
        .unwrap();
    assert_eq!(count, 2);
    assert_eq!(receipts[1]["id"], 2);
    let asked = server.join().unwrap();
    assert!(
        asked.contains("{\"subject\":7,\"data\":\"one\"}\n"),
        "{asked}"
    );
    assert!(asked.contains("{\"subject\":7,\"data\":\"tw\\\"o\"}\n"));
}

#[test]
fn a_subscription_says_whether_it_is_new() {
    let (url, server) = listener(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 25\r\n\r\n\
         {\"added\":1,\"unchanged\":0}",
    );
    assert!(
        ControlClient::new(&url, None)
            .unwrap()
            .subscribe("a", "b")
            .unwrap()
    );
    assert!(
        server
            .join()
            .unwrap()
            .starts_with("PUT /v1/subscriptions/a/b ")
    );
    let (url, server) = listener(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n\
         {\"removed\":0,\"unchanged\":1}",
    );
    assert!(
        !ControlClient::new(&url, None)
            .unwrap()
            .unsubscribe("a", "b")
            .unwrap()
    );
    assert!(
        server
            .join()
            .unwrap()
            .starts_with("DELETE /v1/subscriptions/a/b ")
    );
}

#[test]
fn refusals_say_what_to_do() {
    let refused = |answer| {
        let (url, server) = listener(answer);
        let error = ControlClient::new(&url, None)
            .unwrap()
            .stats()
            .unwrap_err()
            .to_string();
        server.join().unwrap();
        error
    };
    let unauthorized = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
    assert!(refused(unauthorized).contains("pass --control-token"));
    let problem = "HTTP/1.1 413 x\r\nContent-Type: application/problem+json\r\n\
        Connection: close\r\n\r\n{\"title\":\"t\",\"detail\":\"too large\"}";
    assert!(refused(problem).ends_with("answered 413: too large"));
    // Nobody is given a port below 1024 by chance.
    let error = ControlClient::new("http://127.0.0.1:1", None)
        .unwrap()
        .stats()
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("start one with `encke serve` or pass --control")
    );
}
