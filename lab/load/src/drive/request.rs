//! Bytes of requests: one batch for the whole drive, or one request for each event.
//!
//! Must never touch a socket.

use client::http::Url;

use super::payload::{Event, Payload, Template};

/// Digits of a chunk's size, which is filled in when the chunk is complete.
const SIZE_DIGITS: usize = 8;

/// Where and how events are published.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// Encke's control listener, with one request for each connection and one line for each event.
    Batch,
    /// Encke's control listener, with one request for each event.
    Request,
    /// Any server, with one request for each event.
    Url {
        /// Path and query, with the placeholders `{id}`, `{n}` and `{t}`.
        path: Template,
        /// HTTP method, for instance `POST`. `GET` and `DELETE` have no body.
        method: String,
    },
}

/// Encoder of the requests of all connections.
#[derive(Debug)]
pub(super) struct Requests {
    /// Due time of the first event, in nanoseconds since the epoch.
    began: u64,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Batch {
        head: Vec<u8>,
        data: Template,
    },
    Each {
        /// Method and a space.
        method: Vec<u8>,
        path: Template,
        /// Everything from the path to the length of the body, or to the end of the head if there
        /// is no body.
        fields: Vec<u8>,
        body: Option<Template>,
    },
}

/// Unsent bytes of one connection.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    /// Position of the size of the open chunk.
    chunk: Option<usize>,
}

impl Requests {
    pub(super) fn new(
        endpoint: &Endpoint,
        url: &Url,
        bearer: Option<&str>,
        payload: &Payload,
        began: u64,
    ) -> Self {
        let authorization = match bearer {
            Some(token) => format!("Authorization: Bearer {token}\r\n"),
            None => String::new(),
        };
        let host = format!(" HTTP/1.1\r\nHost: {}\r\n{authorization}", url.authority());
        let content_type = match payload.json {
            true => "Content-Type: application/json\r\n",
            false => "Content-Type: text/plain; charset=utf-8\r\n",
        };
        let form = match endpoint {
            Endpoint::Batch => Form::Batch {
                head: format!(
                    "POST /v1/publish{host}Content-Type: application/x-ndjson\r\n\
                     Transfer-Encoding: chunked\r\n\r\n"
                )
                .into_bytes(),
                data: payload.as_json(),
            },
            Endpoint::Request => Form::Each {
                method: b"POST ".to_vec(),
                path: Template::new("/v1/publish/{id}"),
                fields: format!("{host}{content_type}Content-Length: ").into_bytes(),
                body: Some(payload.plain().clone()),
            },
            Endpoint::Url { path, method } => {
                let has_body = !matches!(method.as_str(), "GET" | "DELETE");
                Form::Each {
                    method: format!("{method} ").into_bytes(),
                    path: path.clone(),
                    fields: match has_body {
                        true => format!("{host}{content_type}Content-Length: ").into_bytes(),
                        false => format!("{host}\r\n").into_bytes(),
                    },
                    body: has_body.then(|| payload.plain().clone()),
                }
            }
        };
        Self { began, form }
    }

    /// Whether all events of a connection are sent in one request.
    pub(super) fn is_batch(&self) -> bool {
        matches!(self.form, Form::Batch { .. })
    }

    /// Appends what a connection begins with: the head of a batch.
    pub(super) fn begin(&self, out: &mut Outgoing) {
        if let Form::Batch { head, .. } = &self.form {
            out.bytes.extend_from_slice(head);
        }
    }

    /// Appends an event. `scratch` is a buffer for the body.
    pub(super) fn put(&self, event: Event, out: &mut Outgoing, scratch: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        match &self.form {
            Form::Batch { data, .. } => {
                out.open_chunk();
                out.bytes.extend_from_slice(b"{\"subject\":");
                out.bytes
                    .extend_from_slice(digits.format(event.id).as_bytes());
                out.bytes.extend_from_slice(b",\"data\":");
                data.fill(event, self.began, &mut out.bytes);
                out.bytes.extend_from_slice(b"}\n");
            }
            Form::Each {
                method,
                path,
                fields,
                body,
            } => {
                out.bytes.extend_from_slice(method);
                path.fill(event, self.began, &mut out.bytes);
                out.bytes.extend_from_slice(fields);
                if let Some(body) = body {
                    scratch.clear();
                    body.fill(event, self.began, scratch);
                    out.bytes
                        .extend_from_slice(digits.format(scratch.len()).as_bytes());
                    out.bytes.extend_from_slice(b"\r\n\r\n");
                    out.bytes.extend_from_slice(scratch);
                }
            }
        }
    }

    /// Appends what a connection ends with: the last chunk of a batch.
    pub(super) fn finish(&self, out: &mut Outgoing) {
        if self.is_batch() {
            out.close_chunk();
            out.bytes.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

impl Outgoing {
    /// Closes the open chunk and returns the unsent bytes.
    pub(super) fn ready(&mut self) -> &[u8] {
        self.close_chunk();
        &self.bytes[self.sent..]
    }

    /// Removes the first `count` bytes, which are sent.
    pub(super) fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        }
    }

    /// Number of unsent bytes, at least: closing the open chunk adds two.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    fn open_chunk(&mut self) {
        if self.chunk.is_none() {
            self.chunk = Some(self.bytes.len());
            self.bytes.extend_from_slice(b"00000000\r\n");
        }
    }

    fn close_chunk(&mut self) {
        if let Some(at) = self.chunk.take() {
            let size = self.bytes.len() - at - SIZE_DIGITS - b"\r\n".len();
            let digits = format!("{size:0SIZE_DIGITS$x}");
            self.bytes[at..at + SIZE_DIGITS].copy_from_slice(digits.as_bytes());
            self.bytes.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: Event = Event {
        id: 7,
        number: 3,
        due: 5,
    };

    fn written(endpoint: &Endpoint, bearer: Option<&str>, payload: &Payload) -> String {
        let url = Url::parse("http://host:1").unwrap();
        let requests = Requests::new(endpoint, &url, bearer, payload, 1000);
        let (mut out, mut scratch) = (Outgoing::default(), Vec::new());
        requests.begin(&mut out);
        requests.put(EVENT, &mut out, &mut scratch);
        let mut sent = Vec::new();
        while !out.ready().is_empty() {
            // Like a socket that takes few bytes at a time.
            let bytes = out.ready();
            let count = bytes.len().min(9);
            sent.extend_from_slice(&bytes[..count]);
            out.advance(count);
        }
        requests.put(EVENT, &mut out, &mut scratch);
        requests.finish(&mut out);
        sent.extend_from_slice(out.ready());
        String::from_utf8(sent).unwrap()
    }

    #[test]
    fn a_batch_is_one_request_in_chunks() {
        let line = "{\"subject\":7,\"data\":{\"t\":1005,\"n\":3}}\n";
        let chunk = format!("{:08x}\r\n{line}\r\n", line.len());
        assert_eq!(
            written(&Endpoint::Batch, Some("secret"), &Payload::stamp()),
            format!(
                "POST /v1/publish HTTP/1.1\r\nHost: host:1\r\nAuthorization: Bearer secret\r\n\
                 Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n\
                 {chunk}{chunk}0\r\n\r\n"
            )
        );
    }

    #[test]
    fn each_event_may_be_a_request() {
        let one = "POST /v1/publish/7 HTTP/1.1\r\nHost: host:1\r\n\
            Content-Type: text/plain; charset=utf-8\r\nContent-Length: 6\r\n\r\n3 of 7";
        let payload = Payload::template("{n} of {id}");
        assert_eq!(written(&Endpoint::Request, None, &payload), one.repeat(2));
        let endpoint = Endpoint::Url {
            path: Template::new("/pub?id={id}&t={t}"),
            method: "GET".to_owned(),
        };
        let one = "GET /pub?id=7&t=1005 HTTP/1.1\r\nHost: host:1\r\n\r\n";
        assert_eq!(written(&endpoint, None, &Payload::stamp()), one.repeat(2));
    }
}
