//! Key sets from servers that work, hang, lie, are gone and rotate their keys.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use auth::{KeySet, Policy, PolicySettings, TokenError, UnixSeconds};
use parking_lot::Mutex;
use webhook::outside::{OutsideUrl, UrlErrors};

use super::{JWKS_URLS_MAX, JwksFetcher, Pace};

fn url(text: &str) -> OutsideUrl {
    OutsideUrl::parse(text, &UrlErrors::OF_KEY_SETS).unwrap()
}

/// As fast as a test needs it.
const PACE: Pace = Pace {
    interval: Duration::from_secs(1),
    retry: Duration::from_millis(100),
    timeout: Duration::from_millis(300),
};

/// Ample for anything that is under way.
const LIMIT: Duration = Duration::from_secs(20);

/// Returns the key of RFC 8037, appendix A.2, under a name.
fn document(kid: &str) -> String {
    format!(
        r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{kid}",
           "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}}]}}"#
    )
}

fn ok(body: &str) -> Answer {
    Answer::Bytes(
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )
}

/// What a server does with a request.
#[derive(Clone)]
enum Answer {
    /// Sends these bytes and closes.
    Bytes(Vec<u8>),
    /// Sends these bytes, then nothing, and stays connected.
    ThenHangs(Vec<u8>),
    /// Sends this byte again and again, slowly.
    Drips(u8),
}

/// A server whose answer can be changed.
struct Issuer {
    address: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    requests: Arc<AtomicUsize>,
}

impl Issuer {
    fn new(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = Self {
            address: listener.local_addr().unwrap(),
            answer: Arc::new(Mutex::new(answer)),
            requests: Arc::default(),
        };
        let (answer, requests) = (Arc::clone(&issuer.answer), Arc::clone(&issuer.requests));
        std::thread::spawn(move || {
            // Connections that hang live as long as this thread: to the end of the tests.
            let mut hanging = Vec::new();
            while let Ok((mut stream, _)) = listener.accept() {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
                    head.push(byte[0]);
                }
                requests.fetch_add(1, Ordering::Relaxed);
                let answer = answer.lock().clone();
                match answer {
                    Answer::Bytes(bytes) => drop(stream.write_all(&bytes)),
                    Answer::ThenHangs(bytes) => {
                        let _ = stream.write_all(&bytes);
                        hanging.push(stream);
                    }
                    Answer::Drips(byte) => {
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                        // Until the client has enough of it.
                        let (_pace, never) = sync_channel::<()>(0);
                        while stream.write_all(&[byte]).is_ok() {
                            let _ = never.recv_timeout(Duration::from_millis(20));
                        }
                    }
                }
            }
        });
        issuer
    }

    fn url(&self) -> OutsideUrl {
        url(&format!("http://{}/jwks.json", self.address))
    }

    fn answers(&self, answer: Answer) {
        *self.answer.lock() = answer;
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

/// Returns a fetcher, and the key sets that it brought.
fn fetch_from(urls: Vec<OutsideUrl>) -> (JwksFetcher, Receiver<Arc<KeySet>>) {
    let (changed, keys): (SyncSender<_>, _) = sync_channel(64);
    let changed = Box::new(move |_: &OutsideUrl, keys| drop(changed.send(keys)));
    (JwksFetcher::start_at(PACE, urls, changed).unwrap(), keys)
}

fn tell(done: SyncSender<()>) -> Box<dyn FnOnce() + Send> {
    Box::new(move || done.send(()).expect("the test waits"))
}

/// Fetches now, and waits until that is over.
fn fetch(fetcher: &JwksFetcher) {
    let (done, over) = sync_channel(1);
    fetcher.fetch(tell(done));
    over.recv_timeout(LIMIT).expect("the fetch ends");
}

/// Returns whether a set has a key of this name: the signature is wrong, but not its key unknown.
fn has_key(keys: &Arc<KeySet>, kid: &str) -> bool {
    use base64::Engine;
    let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let header = engine.encode(format!(r#"{{"alg":"EdDSA","kid":"{kid}"}}"#));
    let policy = Policy::new(PolicySettings::default()).with_keys("it", Arc::clone(keys));
    match policy.verify(&format!("{header}.e30.AAAA"), UnixSeconds(0)) {
        Err(TokenError::Signature) => true,
        Err(TokenError::UnknownKey(_)) => false,
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_are_fetched_at_the_start_and_again_and_a_change_is_told_once() {
    let issuer = Issuer::new(ok(&document("1")));
    let (fetcher, keys) = fetch_from(vec![issuer.url()]);
    assert!(has_key(&keys.recv_timeout(LIMIT).unwrap(), "1"));
    fetch(&fetcher);
    fetch(&fetcher);
    assert!(keys.try_recv().is_err(), "nothing has changed");
    issuer.answers(ok(&document("2")));
    fetch(&fetcher);
    let rotated = keys
        .try_recv()
        .expect("the change is told before the fetch is over");
    assert!(has_key(&rotated, "2") && !has_key(&rotated, "1"));
    // Without being asked, after the interval.
    issuer.answers(ok(&document("3")));
    assert!(has_key(&keys.recv_timeout(LIMIT).unwrap(), "3"));
    let stats = fetcher.stats();
    assert!(
        stats.fetched >= 4 && stats.failed == 0 && stats.keys == 1,
        "{stats:?}"
    );
    assert!(stats.age.unwrap() < LIMIT);
}

#[test]
fn keys_stay_as_they_are_whatever_a_server_does_and_change_when_it_is_back() {
    let good = document("1");
    let issuer = Issuer::new(ok(&good));
    let (fetcher, keys) = fetch_from(vec![issuer.url()]);
    keys.recv_timeout(LIMIT).unwrap();
    let answer = |status: &str| {
        let length = document("2").len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{}",
            document("2")
        )
    };
    let elsewhere = format!(
        "HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n",
        Issuer::new(ok(&document("2"))).url().as_written()
    );
    let mut failed = 0;
    for lie in [
        Answer::Bytes(vec![]),
        Answer::Bytes(b"\0\0\0\0".to_vec()),
        Answer::Bytes(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
        Answer::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{\"keys\":[]}".to_vec()),
        Answer::Bytes(elsewhere.into_bytes()),
        Answer::Bytes(answer("404 Not Found").into_bytes()),
        Answer::Bytes(answer("500 Internal Server Error").into_bytes()),
        Answer::Bytes(answer("206 Partial Content").into_bytes()),
        Answer::Bytes(answer("301 Moved").into_bytes()),
        ok("<!DOCTYPE html><html><body>Sign in</body></html>"),
        ok(""),
        ok("null"),
        ok(r#"{"keys":"none"}"#),
        ok(r#"{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}"#),
        ok(r#"{"error":"too many requests"}"#),
        ok(&format!("{}{}", " ".repeat(256 * 1024), document("2"))),
        ok(&"[".repeat(200_000)),
        Answer::Bytes([b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b' '; 8 << 20]].concat()),
        Answer::ThenHangs(vec![]),
        Answer::ThenHangs(b"HTTP/1.1 200 OK\r\nContent-Len".to_vec()),
        Answer::ThenHangs(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"keys\":[".to_vec()),
        Answer::Drips(b' '),
    ] {
        issuer.answers(lie);
        fetch(&fetcher);
        assert!(keys.try_recv().is_err());
        let stats = fetcher.stats();
        assert!(stats.failed > failed, "{stats:?}");
        assert_eq!(stats.keys, 1);
        failed = stats.failed;
    }
    issuer.answers(ok(&document("3")));
    assert!(has_key(&keys.recv_timeout(LIMIT).unwrap(), "3"));
}

#[test]
fn a_server_that_is_gone_is_asked_again_until_it_is_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (fetcher, keys) = fetch_from(vec![url(&format!("http://{address}/"))]);
    fetcher.wait_for_first(LIMIT);
    let stats = fetcher.stats();
    assert!(
        stats.failed >= 1 && stats.fetched == 0 && stats.age.is_none(),
        "{stats:?}"
    );
    fetch(&fetcher);
    assert!(keys.try_recv().is_err());
}

#[test]
fn an_issuer_may_take_all_its_keys_away() {
    let issuer = Issuer::new(ok(&document("1")));
    let (fetcher, keys) = fetch_from(vec![issuer.url()]);
    assert_eq!(keys.recv_timeout(LIMIT).unwrap().len(), 1);
    issuer.answers(ok(r#"{"keys":[]}"#));
    fetch(&fetcher);
    assert!(keys.try_recv().unwrap().is_empty());
}

#[test]
fn a_server_that_hangs_does_not_hold_another_up() {
    let hanging = Issuer::new(Answer::ThenHangs(vec![]));
    let good = Issuer::new(ok(&document("1")));
    let (fetcher, keys) = fetch_from(vec![hanging.url(), good.url()]);
    assert!(has_key(&keys.recv_timeout(LIMIT).unwrap(), "1"));
    fetcher.wait_for_first(LIMIT);
    assert!(fetcher.stats().failed >= 1);
    // A fetch is over when all are.
    fetch(&fetcher);
    assert!(hanging.requests() >= 2 && good.requests() >= 2);
}

#[test]
fn threads_end_with_the_fetcher_and_callers_do_not_wait_for_ever() {
    let issuer = Issuer::new(ok(&document("1")));
    let (fetcher, keys) = fetch_from(vec![issuer.url()]);
    let (done, over) = sync_channel(1);
    fetcher.fetch(tell(done));
    drop(fetcher);
    over.recv_timeout(LIMIT).expect("the caller is told");
    // The sender of key sets is dropped by the thread when it ends.
    while keys.recv_timeout(LIMIT).is_ok() {}
    assert!(matches!(
        keys.recv_timeout(LIMIT),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
    ));
}

#[test]
fn callers_beyond_the_bound_go_on_at_once() {
    let issuer = Issuer::new(Answer::ThenHangs(vec![]));
    let (fetcher, _keys) = fetch_from(vec![issuer.url()]);
    let (done, over) = sync_channel(2000);
    for _ in 0..1000 {
        fetcher.fetch(tell(done.clone()));
    }
    for _ in 0..1000 {
        over.recv_timeout(LIMIT).expect("each caller is told");
    }
    assert!(issuer.requests() < 100);
}

#[test]
fn there_are_few_addresses() {
    let many = vec![url("https://issuer.example/"); JWKS_URLS_MAX + 1];
    assert!(JwksFetcher::start(many, Box::new(|_, _| ())).is_err());
}

#[test]
fn over_https_a_server_must_prove_its_name() {
    // It speaks HTTP only: the handshake fails, and nothing falls back to plain text.
    let issuer = Issuer::new(ok(&document("1")));
    let url = url(&format!("https://{}/", issuer.address));
    let (fetcher, keys) = fetch_from(vec![url]);
    fetcher.wait_for_first(LIMIT);
    assert!(fetcher.stats().failed >= 1 && keys.try_recv().is_err());
}
