//! A client of Encke's control listener, for the commands. Its errors are sentences that say what
//! to do.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Doing, Failure, Outcome};
use crate::http::{Answer, Connection, Payload, Url, segment};

/// Most of a refusal's body that is shown.
const DETAIL_MAX: u64 = 64 * 1024;

/// What became of a publish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The event's id; empty when the receipt sums up many.
    #[serde(default)]
    pub id: String,
    /// Ids subscribed.
    pub subscribers: u64,
    /// Ids of them online.
    pub online: u64,
    /// Sessions written to.
    pub written: u64,
    /// Sessions in whose backlog it waits.
    pub queued: u64,
    /// Sessions that lost it.
    pub shed: u64,
    /// What the server says besides.
    #[serde(flatten)]
    pub more: serde_json::Map<String, Value>,
}

/// What a payload is called besides its subject.
#[derive(Debug, Clone, Copy, Default)]
pub struct Labels<'a> {
    /// `Content-Type` of the payload.
    pub content_type: Option<&'a str>,
    /// The event's type, which subscribers see.
    pub kind: Option<&'a str>,
}

/// A control listener. Keeps its connection from call to call.
#[derive(Debug)]
pub struct Control {
    url: Url,
    shown: String,
    bearer: Option<String>,
    connection: Option<Connection>,
}

impl Control {
    /// The listener at `url`, which is not contacted yet.
    pub fn new(url: &str, token: Option<&str>) -> Outcome<Self> {
        Ok(Self {
            url: Url::parse(url)?,
            shown: url.trim_end_matches('/').to_owned(),
            bearer: token.map(|token| format!("Bearer {token}")),
            connection: None,
        })
    }

    /// Publishes `payload` about `subject`.
    pub fn publish(
        &mut self,
        subject: &str,
        payload: &[u8],
        labels: Labels<'_>,
    ) -> Outcome<Receipt> {
        let path = with_kind(format!("/v1/publish/{}", segment(subject)), labels.kind);
        self.receipt(&path, payload, labels)
    }

    /// Publishes `payload` about `subject` without waiting for the workers' turns.
    pub fn publish_early(&mut self, subject: &str, payload: &[u8]) -> Outcome<()> {
        let path = format!("/v1/publish/{}?receipt=early", segment(subject));
        let fields = [("Content-Type", "text/plain; charset=utf-8")];
        self.call("POST", &path, &fields, Payload::Bytes(payload))
            .map(drop)
    }

    /// Sends `payload` to the sessions of `id` alone.
    pub fn send(&mut self, id: &str, payload: &[u8], labels: Labels<'_>) -> Outcome<Receipt> {
        let path = with_kind(format!("/v1/send/{}", segment(id)), labels.kind);
        self.receipt(&path, payload, labels)
    }

    /// Subscribes `subscriber` to `subject`.
    pub fn subscribe(&mut self, subscriber: &str, subject: &str) -> Outcome<()> {
        self.call("PUT", &edge(subscriber, subject), &[], Payload::None)
            .map(drop)
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, subscriber: &str, subject: &str) -> Outcome<()> {
        self.call("DELETE", &edge(subscriber, subject), &[], Payload::None)
            .map(drop)
    }

    /// The sessions of `id`.
    pub fn sessions(&mut self, id: &str) -> Outcome<Value> {
        let path = format!("/v1/sessions/{}", segment(id));
        self.call("GET", &path, &[], Payload::None)
    }

    /// Logs out the sessions of `id` and closes them.
    pub fn close_sessions(&mut self, id: &str) -> Outcome<Value> {
        let path = format!("/v1/sessions/{}", segment(id));
        self.call("DELETE", &path, &[], Payload::None)
    }

    /// The server's statistics.
    pub fn stats(&mut self) -> Outcome<Value> {
        self.call("GET", "/v1/stats", &[], Payload::None)
    }

    /// Whether the server says that it is well.
    pub fn is_healthy(&mut self) -> bool {
        self.call("GET", "/healthz", &[], Payload::None).is_ok()
    }

    /// Adds many edges: lines of `subscriber subject`.
    pub fn subscribe_many(&mut self, edges: &mut dyn Read) -> Outcome<Value> {
        self.stream("/v1/subscriptions", "text/plain", edges)
    }

    /// Removes many edges.
    pub fn unsubscribe_many(&mut self, edges: &mut dyn Read) -> Outcome<Value> {
        self.stream("/v1/subscriptions/remove", "text/plain", edges)
    }

    /// Publishes a ready NDJSON batch and returns its one summary.
    pub fn publish_batch(&mut self, batch: &mut dyn Read) -> Outcome<Value> {
        self.stream(
            "/v1/publish?receipts=summary",
            "application/x-ndjson",
            batch,
        )
    }

    /// Publishes each line of `input` about `subject`, in one streamed request. Receipts are read
    /// while lines are written, and each passes to `tell`; the return value counts them.
    pub fn publish_lines(
        &mut self,
        subject: &str,
        kind: Option<&str>,
        input: impl Read + Send,
        mut tell: impl FnMut(Value),
    ) -> Outcome<u64> {
        let mut connection = self.connect()?;
        let fields = self.fields(Some("application/x-ndjson"));
        connection
            .write("POST", "/v1/publish", &fields, Payload::Chunked)
            .map_err(|error| self.explain(&error))?;
        let mut chunks = connection.chunks().map_err(|error| self.explain(&error))?;
        thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let written = write_lines(&mut chunks, subject, kind, BufReader::new(input));
                match &written {
                    Ok(()) => chunks.finish().map_err(LineError::Server),
                    Err(LineError::Input(_)) => {
                        chunks.abandon();
                        written
                    }
                    // The server ended the request; its answer says why.
                    Err(LineError::Server(_)) => written,
                }
            });
            let read = self.read_receipts(&mut connection, &mut tell);
            let written = writer.join().expect("the writer of lines does not panic");
            match (read, written) {
                (_, Err(LineError::Input(error))) => Err(Failure::new(format!(
                    "reading the lines to publish: {error}"
                ))),
                (Err(failure), _) => Err(failure),
                (Ok(count), Ok(())) => Ok(count),
                (Ok(count), Err(LineError::Server(error))) => Err(Failure::new(format!(
                    "the server at {} ended the batch after {count} receipts: {error}",
                    self.shown
                ))),
            }
        })
    }

    fn read_receipts(
        &self,
        connection: &mut Connection,
        tell: &mut impl FnMut(Value),
    ) -> Outcome<u64> {
        let answer = connection
            .read_head()
            .map_err(|error| self.explain(&error))?;
        let mut body = BufReader::new(connection.body(&answer));
        if answer.status >= 300 {
            return Err(self.refusal(&answer, &mut body));
        }
        let (mut count, mut line) = (0, String::new());
        loop {
            line.clear();
            let read = body
                .read_line(&mut line)
                .map_err(|error| self.explain(&error))?;
            if read == 0 {
                return Ok(count);
            }
            if !line.trim().is_empty() {
                tell(serde_json::from_str(&line).doing("reading a receipt")?);
                count += 1;
            }
        }
    }

    fn receipt(&mut self, path: &str, payload: &[u8], labels: Labels<'_>) -> Outcome<Receipt> {
        let content_type = labels.content_type.unwrap_or("text/plain; charset=utf-8");
        let value = self.call(
            "POST",
            path,
            &[("Content-Type", content_type)],
            Payload::Bytes(payload),
        )?;
        serde_json::from_value(value).doing("reading the receipt")
    }

    /// Writes `body` in chunks and reads the one answer, which may come before the end.
    fn stream(&mut self, path: &str, content_type: &str, body: &mut dyn Read) -> Outcome<Value> {
        let mut connection = self.connect()?;
        let fields = self.fields(Some(content_type));
        let written = connection
            .write("POST", path, &fields, Payload::Chunked)
            .and_then(|()| connection.chunks())
            .and_then(|mut chunks| {
                io::copy(body, &mut chunks)?;
                chunks.finish()
            });
        match self.read_answer(&mut connection) {
            Ok(value) => {
                written.map_err(|error| self.explain(&error))?;
                self.keep(connection);
                Ok(value)
            }
            Err(failure) => Err(failure),
        }
    }

    fn call(
        &mut self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        payload: Payload<'_>,
    ) -> Outcome<Value> {
        let mut connection = self.connect()?;
        let mut fields = self.fields(None);
        fields.extend_from_slice(more);
        connection
            .write(method, path, &fields, payload)
            .map_err(|error| self.explain(&error))?;
        let value = self.read_answer(&mut connection)?;
        self.keep(connection);
        Ok(value)
    }

    fn read_answer(&self, connection: &mut Connection) -> Outcome<Value> {
        let answer = connection
            .read_head()
            .map_err(|error| self.explain(&error))?;
        self.read_body(connection, &answer)
    }

    fn read_body(&self, connection: &mut Connection, answer: &Answer) -> Outcome<Value> {
        let mut body = connection.body(answer);
        if answer.status >= 300 {
            return Err(self.refusal(answer, &mut body));
        }
        let mut bytes = Vec::new();
        body.read_to_end(&mut bytes)
            .map_err(|error| self.explain(&error))?;
        if bytes.is_empty() || !answer.content_type.contains("json") {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).doing("reading the server's answer")
    }

    fn connect(&mut self) -> Outcome<Connection> {
        match self.connection.take() {
            Some(connection) if !connection.is_stale() => Ok(connection),
            _ => Connection::open(&self.url).map_err(|error| self.explain(&error)),
        }
    }

    fn keep(&mut self, connection: Connection) {
        if !connection.is_spent() {
            self.connection = Some(connection);
        }
    }

    fn fields<'a>(&'a self, content_type: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
        let bearer = self
            .bearer
            .as_deref()
            .map(|bearer| ("Authorization", bearer));
        let content_type = content_type.map(|content_type| ("Content-Type", content_type));
        bearer.into_iter().chain(content_type).collect()
    }

    fn explain(&self, error: &io::Error) -> Failure {
        let url = &self.shown;
        Failure::new(match error.kind() {
            io::ErrorKind::ConnectionRefused => format!(
                "no Encke control listener at {url}: start one with `encke serve` or pass --control"
            ),
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                format!("{url} did not answer in time: is it the control listener, and is it busy?")
            }
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => {
                format!("{url} closed the connection before it answered: look at the server's log")
            }
            io::ErrorKind::InvalidData => {
                format!("what listens at {url} does not speak HTTP ({error}): check --control")
            }
            _ => format!("calling {url}: {error}"),
        })
    }

    /// Why the server refused: what its problem details say, and the remedy where it is ours.
    fn refusal(&self, answer: &Answer, body: &mut dyn Read) -> Failure {
        let mut bytes = Vec::new();
        let _ = body.take(DETAIL_MAX).read_to_end(&mut bytes);
        let url = &self.shown;
        if matches!(answer.status, 401 | 403) {
            let found = if self.bearer.is_some() {
                "another"
            } else {
                "a"
            };
            return Failure::new(format!(
                "{url} wants {found} token: pass --control-token, the one `encke serve` was \
                 started with"
            ));
        }
        let detail = detail(&bytes);
        let detail = if detail.is_empty() {
            "no reason given".to_owned()
        } else {
            detail
        };
        Failure::new(format!("{url} answered {}: {detail}", answer.status))
    }
}

enum LineError {
    Input(io::Error),
    Server(io::Error),
}

/// One line of a batch.
#[derive(Serialize)]
struct BatchLine<'a> {
    subject: IdValue<'a>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    data: &'a str,
}

/// An id as JSON: integers as numbers, as the API wants them.
#[derive(Serialize)]
#[serde(untagged)]
enum IdValue<'a> {
    Integer(u64),
    Text(&'a str),
}

impl<'a> IdValue<'a> {
    fn of(id: &'a str) -> Self {
        match id.parse::<u64>() {
            // `007` is another id than 7.
            Ok(number) if number.to_string() == id => Self::Integer(number),
            _ => Self::Text(id),
        }
    }
}

fn write_lines(
    chunks: &mut impl Write,
    subject: &str,
    kind: Option<&str>,
    mut input: BufReader<impl Read>,
) -> Result<(), LineError> {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if input
            .read_until(b'\n', &mut bytes)
            .map_err(LineError::Input)?
            == 0
        {
            return Ok(());
        }
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let data = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        let line = BatchLine {
            subject: IdValue::of(subject),
            kind,
            data: &data,
        };
        serde_json::to_writer(&mut *chunks, &line)
            .map_err(io::Error::from)
            .and_then(|()| chunks.write_all(b"\n"))
            .map_err(LineError::Server)?;
        // What a person types must not wait for more.
        if input.buffer().is_empty() {
            chunks.flush().map_err(LineError::Server)?;
        }
    }
}

/// The `detail` or `title` of problem details, else the first line of the text.
fn detail(body: &[u8]) -> String {
    if let Ok(Value::Object(problem)) = serde_json::from_slice::<Value>(body) {
        for member in ["detail", "title"] {
            if let Some(Value::String(text)) = problem.get(member) {
                return text.clone();
            }
        }
    }
    String::from_utf8_lossy(body)
        .lines()
        .next()
        .unwrap_or("")
        .trim()
        .to_owned()
}

fn edge(subscriber: &str, subject: &str) -> String {
    format!(
        "/v1/subscriptions/{}/{}",
        segment(subscriber),
        segment(subject)
    )
}

fn with_kind(path: String, kind: Option<&str>) -> String {
    match kind {
        Some(kind) => format!("{path}?type={}", segment(kind)),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A control listener that answers every request on every connection with `answer`.
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
        {\"id\":\"1-1\",\"subscribers\":3,\"online\":2,\"written\":2,\"queued\":0,\"shed\":0}          ";

    #[test]
    fn a_publish_names_its_subject_type_and_token() {
        let (url, server) = listener(RECEIPT);
        let mut control = Control::new(&url, Some("secret")).unwrap();
        let labels = Labels {
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
        let mut control = Control::new(&url, None).unwrap();
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
    fn refusals_say_what_to_do() {
        let refused = |answer| {
            let (url, server) = listener(answer);
            let error = Control::new(&url, None)
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
        let nobody = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let error = Control::new(&format!("http://{nobody}"), None)
            .unwrap()
            .stats()
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("start one with `encke serve` or pass --control")
        );
    }

    #[test]
    fn an_id_is_a_number_only_when_it_reads_back_the_same() {
        let json = |id| serde_json::to_string(&IdValue::of(id)).unwrap();
        assert_eq!(json("7"), "7");
        assert_eq!(json("007"), "\"007\"");
        assert_eq!(json("rj"), "\"rj\"");
    }
}
