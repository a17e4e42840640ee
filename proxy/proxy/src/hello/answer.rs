//! Bytes of the answer, rendered once for each way in which the connection may continue. Only the
//! date changes.

use wire::head::{Method, Version};
use wire::response::{DATE_BYTES, http_date};
use wire::status::Status;

/// Fixed answer, ready to be sent.
#[derive(Debug, Clone)]
pub struct Answer {
    /// For HTTP/1.1 clients whose connection stays open.
    open: Rendered,
    /// For HTTP/1.0 clients whose connection stays open, which must be stated.
    open_http10: Rendered,
    /// Last answer of a connection.
    last: Rendered,
    unix_seconds: u64,
}

/// Reason why an answer is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The status is not that of a final answer.
    #[error("{0} is not the status of an answer: one from 200 to 599 is needed")]
    Status(u16),
    /// The field is not of the form `name: value`, or contains a line break.
    #[error(
        "`{0}` is not a header field: a name, a colon and a value on one line are needed, like \
         `Cache-Control: no-store`"
    )]
    Field(String),
    /// The server writes this field itself.
    #[error("the server writes {0} itself, as it says where the answer ends; leave it out")]
    OwnField(String),
    /// Answers with this status have no body.
    #[error("an answer of status {0} has no body; leave --body out or choose another status")]
    Body(u16),
}

#[derive(Debug, Clone)]
struct Rendered {
    bytes: Vec<u8>,
    date_at: usize,
    head_bytes: usize,
}

impl Answer {
    /// Makes an answer with this status, additional `fields` of the form `name: value`, and a body.
    ///
    /// # Errors
    ///
    /// See [`AnswerError`].
    pub fn new(status: u16, fields: &[String], body: &[u8]) -> Result<Self, AnswerError> {
        if !(200..=599).contains(&status) {
            return Err(AnswerError::Status(status));
        }
        let bodiless = matches!(status, 204 | 304);
        if bodiless && !body.is_empty() {
            return Err(AnswerError::Body(status));
        }
        for field in fields {
            check_field(field)?;
        }
        let render =
            |ending: &str| Rendered::new(status, fields, ending, (!bodiless).then_some(body));
        Ok(Self {
            open: render(""),
            open_http10: render("Connection: keep-alive\r\n"),
            last: render("Connection: close\r\n"),
            unix_seconds: 0,
        })
    }

    /// Sets the date (RFC 9110, section 6.6.1).
    pub(super) fn set_date(&mut self, unix_seconds: u64) {
        if self.unix_seconds != unix_seconds {
            self.unix_seconds = unix_seconds;
            let date = http_date(unix_seconds);
            for rendered in [&mut self.open, &mut self.open_http10, &mut self.last] {
                let at = rendered.date_at;
                rendered.bytes[at..at + DATE_BYTES].copy_from_slice(&date);
            }
        }
    }

    /// Returns the bytes that answer a request.
    pub(super) fn bytes(&self, method: Method, version: Version, keep_alive: bool) -> &[u8] {
        let rendered = match (keep_alive, version) {
            (false, _) => &self.last,
            (true, Version::Http11) => &self.open,
            (true, Version::Http10) => &self.open_http10,
        };
        match method {
            Method::Head => &rendered.bytes[..rendered.head_bytes],
            _ => &rendered.bytes,
        }
    }
}

impl Rendered {
    fn new(status: u16, fields: &[String], ending: &str, body: Option<&[u8]>) -> Self {
        let known = Status::ALL.iter().find(|known| known.code() == status);
        let phrase = known.map_or("", |known| known.phrase());
        let mut head = format!("HTTP/1.1 {status} {phrase}\r\nDate: ");
        let date_at = head.len();
        head.push_str(&" ".repeat(DATE_BYTES));
        head.push_str("\r\n");
        let has_type = fields.iter().any(|field| names(field, "content-type"));
        if !has_type && body.is_some_and(|body| !body.is_empty()) {
            head.push_str("Content-Type: text/plain; charset=utf-8\r\n");
        }
        for field in fields {
            head.push_str(field);
            head.push_str("\r\n");
        }
        if let Some(body) = body {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str(ending);
        head.push_str("\r\n");
        let head_bytes = head.len();
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        Self {
            bytes,
            date_at,
            head_bytes,
        }
    }
}

/// Fields that delimit the answer or that the server maintains.
const OWN_FIELDS: [&str; 4] = ["content-length", "transfer-encoding", "connection", "date"];

fn check_field(field: &str) -> Result<(), AnswerError> {
    let (name, value) = field
        .split_once(':')
        .ok_or_else(|| AnswerError::Field(field.to_owned()))?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_text = |byte: u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    if name.is_empty() || !name.bytes().all(is_token) || !value.bytes().all(is_text) {
        return Err(AnswerError::Field(field.to_owned()));
    }
    if OWN_FIELDS.iter().any(|own| names(field, own)) {
        return Err(AnswerError::OwnField(name.to_owned()));
    }
    Ok(())
}

fn names(field: &str, name: &str) -> bool {
    field
        .split_once(':')
        .is_some_and(|(found, _)| found.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_where_it_ends() {
        let fields = ["X-A: b".to_owned()];
        let mut answer = Answer::new(200, &fields, b"hello").unwrap();
        answer.set_date(784_111_777);
        let text = |method, version, keep| {
            String::from_utf8(answer.bytes(method, version, keep).to_vec()).unwrap()
        };
        assert_eq!(
            text(Method::Get, Version::Http11, true),
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: text/plain; charset=utf-8\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello"
        );
        assert!(text(Method::Get, Version::Http10, true).contains("Connection: keep-alive\r\n"));
        assert!(text(Method::Get, Version::Http11, false).contains("Connection: close\r\n"));
        assert!(text(Method::Head, Version::Http11, true).ends_with("Content-Length: 5\r\n\r\n"));
        let empty = Answer::new(204, &[], b"").unwrap();
        let empty = empty.bytes(Method::Get, Version::Http11, true);
        assert!(!String::from_utf8_lossy(empty).contains("Content-Length"));
    }

    #[test]
    fn an_answer_that_would_mislead_is_refused() {
        let new = |status, field: &str, body: &[u8]| {
            Answer::new(status, &[field.to_owned()], body).map(drop)
        };
        assert_eq!(new(101, "A: b", b""), Err(AnswerError::Status(101)));
        assert_eq!(new(204, "A: b", b"x"), Err(AnswerError::Body(204)));
        for field in ["", "A", ": b", "A b: c", "A: b\r\nC: d", "A: \0"] {
            assert!(
                matches!(new(200, field, b""), Err(AnswerError::Field(_))),
                "{field:?}"
            );
        }
        for field in ["Content-Length: 1", "connection: close", "Date: today"] {
            assert!(
                matches!(new(200, field, b""), Err(AnswerError::OwnField(_))),
                "{field}"
            );
        }
    }
}
