//! One stream, followed: connects, decodes, and comes back with jitter when the server goes.

mod event;

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use crate::backoff::Backoff;
use crate::decode::Transport;
use crate::http::{Connection, Part, RequestBody, Url, encode_segment};
use crate::tls::{self, Authorities};
use machine::failure::{Failure, Outcome};

use event::Decoder;
pub use event::Event;

/// How often a wait looks whether it should stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Silence after which the connection is taken for dead: three heartbeats of the longest usual
/// interval.
const SILENCE_MAX: Duration = Duration::from_secs(180);

/// What to follow.
#[derive(Debug, Clone)]
pub struct Options {
    /// The public listener.
    pub url: String,
    /// Authorities that an `https` server's certificate must be issued by.
    pub authorities: Authorities,
    /// Ids to log in as. None means those that the credential stands for.
    pub ids: Vec<String>,
    /// What proves who the client is, if the server wants that.
    pub credential: Option<Credential>,
    /// How the events come.
    pub transport: Transport,
    /// Seed of the jitter.
    pub seed: u64,
}

/// What proves who a client is. Its `Debug` hides the secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A token, sent as `Authorization: Bearer`.
    Token(String),
    /// A ticket, sent in the query.
    Ticket(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Token(_) => "Token(…)",
            Self::Ticket(_) => "Ticket(…)",
        })
    }
}

/// What happened to the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// The server answered.
    Connected,
    /// An event came.
    Event(Event),
    /// The stream is gone for this reason and will be tried again after this time.
    Lost(String, Duration),
}

/// Follows the stream until `stop` is set, `tell` breaks, or the server refuses for good.
///
/// # Errors
///
/// When the URL is invalid, the authorities cannot be used, or the server refuses in a way that a
/// retry cannot change, or its certificate is not trusted. A stream that breaks is a
/// [`Notification::Lost`], and no error.
pub fn listen(
    options: &Options,
    stop: &AtomicBool,
    mut tell: impl FnMut(Notification) -> ControlFlow<()>,
) -> Outcome<()> {
    let url = Url::parse(&options.url)?;
    let request = Request::new(options, &url)?;
    let mut backoff = Backoff::seeded(options.seed);
    loop {
        let mut stream = Stream {
            transport: options.transport,
            backoff: &mut backoff,
            stop,
        };
        let (reason, least) = match stream.follow(&request, &mut tell) {
            Ended::ByUs => return Ok(()),
            Ended::ForGood(failure) => return Err(failure),
            Ended::ForNow(reason, least) => (reason, least),
        };
        let wait = backoff.next_wait().max(least);
        if tell(Notification::Lost(reason, wait)).is_break() || !sleep(wait, stop) {
            return Ok(());
        }
    }
}

/// What is asked of the server, each time anew.
struct Request<'a> {
    url: &'a Url,
    /// With TLS, its configuration.
    tls: Option<Arc<ClientConfig>>,
    path: String,
    /// `Authorization`, if there is a token.
    bearer: Option<String>,
    has_credential: bool,
}

impl<'a> Request<'a> {
    fn new(options: &Options, url: &'a Url) -> Outcome<Self> {
        let folder = match options.transport {
            Transport::Sse => "events",
            Transport::Ndjson => "stream",
            Transport::Chunks => "test",
            Transport::Raw | Transport::WebSocket => {
                return Err(Failure::new(format!(
                    "{} is not listened to here: use sse, ndjson or test",
                    options.transport
                )));
            }
        };
        let mut path = format!("{}/{folder}", url.path().trim_end_matches('/'));
        for (place, id) in options.ids.iter().enumerate() {
            path.push(if place == 0 { '/' } else { ',' });
            path.push_str(&encode_segment(id));
        }
        let mut bearer = None;
        match &options.credential {
            Some(Credential::Token(token)) => bearer = Some(format!("Bearer {token}")),
            Some(Credential::Ticket(ticket)) => {
                path.push_str(&format!("?ticket={}", encode_segment(ticket)));
            }
            None => {}
        }
        let tls = url.is_secure().then(|| options.authorities.config());
        Ok(Self {
            url,
            tls: tls.transpose()?.map(Arc::new),
            path,
            bearer,
            has_credential: options.credential.is_some(),
        })
    }

    /// Connects and sends the request.
    fn send(&self) -> io::Result<Connection> {
        let mut connection = match &self.tls {
            Some(config) => Connection::open_secure(self.url, config)?,
            None => Connection::open(self.url)?,
        };
        let bearer = self.bearer.as_deref();
        let fields: Vec<_> = bearer
            .map(|bearer| ("Authorization", bearer))
            .into_iter()
            .collect();
        connection.set_read_timeout(Some(SILENCE_MAX))?;
        connection.write("GET", &self.path, &fields, RequestBody::None)?;
        Ok(connection)
    }
}

enum Ended {
    ByUs,
    ForGood(Failure),
    ForNow(String, Duration),
}

struct Stream<'a> {
    transport: Transport,
    backoff: &'a mut Backoff,
    stop: &'a AtomicBool,
}

impl Stream<'_> {
    fn follow(
        &mut self,
        request: &Request<'_>,
        tell: &mut impl FnMut(Notification) -> ControlFlow<()>,
    ) -> Ended {
        let url = request.url;
        let lost = |error: &io::Error| match tls::handshake_error(error) {
            // Another attempt would meet the same certificate.
            Some(error) => Ended::ForGood(Failure::new(tls::explain(url.authority(), error))),
            None => Ended::ForNow(reason(error, url), Duration::ZERO),
        };
        let mut connection = match request.send() {
            Ok(connection) => connection,
            Err(error) => return lost(&error),
        };
        let answer = match connection.read_head() {
            Ok(answer) => answer,
            Err(error) => return lost(&error),
        };
        match answer.status {
            200 => {}
            204 => return Ended::ForGood(Failure::new("the server has no more events (204)")),
            status => {
                let mut bytes = Vec::new();
                let _ = connection.body(&answer).next(&mut bytes);
                let line = String::from_utf8_lossy(&bytes);
                let line = line.lines().next().unwrap_or("").trim();
                let said = match (line.trim_end_matches('.'), status) {
                    ("", 401) => "it wants to know who you are",
                    ("", 403) => "you may not read all of these ids",
                    (line, _) => line,
                };
                let remedy = match (status, request.has_credential) {
                    (401, false) => "; pass --token-file or --ticket",
                    _ => "",
                };
                let sentence = format!("{} answered {status}: {said}{remedy}", url.authority());
                return if status >= 500 || status == 429 || status == 408 {
                    let least = Duration::from_secs(answer.retry_after.unwrap_or(0).min(300));
                    Ended::ForNow(sentence, least)
                } else {
                    Ended::ForGood(Failure::new(sentence))
                };
            }
        }
        if tell(Notification::Connected).is_break() {
            return Ended::ByUs;
        }
        if let Err(error) = connection.set_read_timeout(Some(LOOK_EVERY)) {
            return lost(&error);
        }
        let mut body = connection.body(&answer);
        let mut decoder = Decoder::new(self.transport);
        let (mut bytes, mut heard) = (Vec::new(), Instant::now());
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ended::ByUs;
            }
            match body.next(&mut bytes) {
                Ok(Part::End) => {
                    return Ended::ForNow("the server ended the stream".to_owned(), Duration::ZERO);
                }
                Ok(part) => {
                    heard = Instant::now();
                    // A server that sends is well; one that only accepts may be falling.
                    self.backoff.succeed();
                    let decoded = decoder.read(&mut bytes, part);
                    if let Some(base) = decoded.retry {
                        self.backoff.set_base(base);
                    }
                    for event in decoded.events {
                        if tell(Notification::Event(event)).is_break() {
                            return Ended::ByUs;
                        }
                    }
                }
                Err(error) if is_timeout(&error) && heard.elapsed() < SILENCE_MAX => {}
                Err(error) => return lost(&error),
            }
        }
    }
}

fn reason(error: &io::Error, url: &Url) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("nothing listens at {}", url.authority()),
        io::ErrorKind::UnexpectedEof => "the server ended the stream".to_owned(),
        io::ErrorKind::ConnectionReset => "the server reset the connection".to_owned(),
        _ if is_timeout(error) => "the server fell silent".to_owned(),
        _ => error.to_string(),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// Sleeps unless `stop` is set meanwhile; whether it slept to the end.
fn sleep(wait: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + wait;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
    !stop.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Serves each script to one connection, closes it, and returns the request lines.
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
                asked.push(text.lines().next().unwrap().to_owned());
                stream.write_all(script.as_bytes()).unwrap();
            }
            asked
        });
        (url, server)
    }

    fn follow(url: String, transport: Transport, ids: &[&str]) -> (Vec<Notification>, Outcome<()>) {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let options = Options {
            url,
            authorities: Authorities::System,
            ids,
            credential: None,
            transport,
            seed: 5,
        };
        let mut news = Vec::new();
        let outcome = listen(&options, &AtomicBool::new(false), |one| {
            news.push(one);
            ControlFlow::Continue(())
        });
        (news, outcome)
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
    fn a_lost_stream_is_found_again_and_a_refusal_ends_it() {
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
        assert_eq!(server.join().unwrap()[0], "GET /events/r%20j,7 HTTP/1.1");
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
}
