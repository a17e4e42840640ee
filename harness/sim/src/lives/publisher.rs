//! Publishers: clients of the control API, with one request at a time on one connection.

use serde_json::Value;

use super::connection::Connection;

/// A publisher, and its request under way. Lives as long as its connection.
pub(super) struct Publisher {
    connection: Connection,
    /// The rest of its request, which it has not said yet.
    unsaid: Vec<u8>,
    answer: Vec<u8>,
    /// What it has asked for and has no answer to.
    pub(super) asked: Option<Asked>,
}

/// A request without an answer.
pub(super) struct Asked {
    /// The model's time when it began.
    pub(super) begun: u64,
    pub(super) what: What,
}

pub(super) enum What {
    /// The event of this number.
    Publish(usize),
    /// Change these subscriptions; `is_whole` if all of them or none.
    Change {
        edges: Vec<(Edge, bool)>,
        is_whole: bool,
    },
    /// List the subscriptions of an id.
    List(&'static str),
    /// List the subscribers of an id.
    Subscribers(&'static str),
    /// Log in or out the process of this number.
    Login(u32),
    Logout(u32),
}

/// Subscriber and subject.
pub(super) type Edge = (&'static str, &'static str);

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
    /// The connection ends behind it.
    pub(super) closes: bool,
}

impl Publisher {
    pub(super) const fn new(connection: Connection) -> Self {
        Self {
            connection,
            unsaid: Vec::new(),
            answer: Vec::new(),
            asked: None,
        }
    }

    /// Begins a request, and says nothing of it yet.
    pub(super) fn ask(&mut self, method: &str, path: &str, body: &str, asked: Asked) {
        self.unsaid = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes();
        self.asked = Some(asked);
    }

    pub(super) fn unsaid(&self) -> usize {
        self.unsaid.len()
    }

    /// Says so many bytes of its request.
    pub(super) fn say(&mut self, bytes: usize) {
        let said: Vec<_> = self.unsaid.drain(..bytes.min(self.unsaid.len())).collect();
        if !said.is_empty() {
            self.connection.say(&said);
        }
    }

    pub(super) fn end(&self) {
        self.connection.end();
    }

    pub(super) fn break_off(&self) {
        self.connection.break_off();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Returns the answer to its request, when that is there.
    pub(super) fn answer(&mut self) -> Option<(Asked, Answer)> {
        self.answer.extend(self.connection.take());
        let end = self.answer.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&self.answer[..end]).to_lowercase();
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|it| it.lines().next()?.parse::<usize>().ok());
        let length = length.unwrap_or_else(|| panic!("an answer without a length: {head}"));
        let body = self.answer.get(end..end + length)?;
        let body = serde_json::from_slice(body).expect("an answer of JSON");
        let status = head["http/1.1 ".len()..][..3].parse().expect("a status");
        let closes = head.contains("\r\nconnection: close\r\n");
        self.answer.drain(..end + length);
        let asked = self.asked.take();
        let asked = asked.unwrap_or_else(|| panic!("an answer to nothing: {status} {body}"));
        let answer = Answer {
            status,
            body,
            closes,
        };
        Some((asked, answer))
    }
}
