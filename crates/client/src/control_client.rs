//! A client of Encke's control listener, for the commands. Its errors are sentences that say what
//! to do.

mod exchange;
mod secure;
mod lines;
mod refusal;
#[cfg(test)]
mod tests;

use std::io::{Read, Write};
use std::time::Duration;

use secure::Secure;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use refusal::problem_detail;

use crate::http::{Connection, RequestBody, Url, encode_segment};
use crate::tls::Authorities;
use machine::failure::{Context, Failure, Outcome};

/// `Content-Type` of a payload that is not said to be something else.
const TEXT: &str = "text/plain; charset=utf-8";

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

/// Metadata of a payload besides its subject.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventMetadata<'a> {
    /// `Content-Type` of the payload.
    pub content_type: Option<&'a str>,
    /// The event's type, which subscribers see.
    pub kind: Option<&'a str>,
}

/// A client of a control listener, over `http` or `https`. Keeps its connection from call to call.
#[derive(Debug)]
pub struct ControlClient {
    shown: String,
    bearer: Option<String>,
    read_timeout: Option<Duration>,
    channel: Channel,
}

/// How requests reach the listener.
#[derive(Debug)]
enum Channel {
    /// Over a connection of our own: it costs a measurement little, and an answer can be read while
    /// the request is written.
    Plain {
        url: Url,
        connection: Option<Connection>,
    },
    /// Through `ureq`, which has TLS and reads an answer after the request.
    Tls(Secure),
}

impl ControlClient {
    /// Creates a client of the listener at `url`: `http://host:port`, `https://host:port`, or
    /// `host:port` for `http`. It trusts the authorities of the system. Does not connect yet.
    ///
    /// # Errors
    ///
    /// When `url` is none of these.
    pub fn new(url: &str, token: Option<&str>) -> Outcome<Self> {
        Self::trusting(&Authorities::System, url, token)
    }

    /// Creates a client that trusts these authorities.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new), and when the authorities cannot be used.
    pub fn trusting(authorities: &Authorities, url: &str, token: Option<&str>) -> Outcome<Self> {
        let parsed = Url::parse(url)?;
        let channel = if parsed.is_secure() {
            Channel::Tls(Secure::new(parsed.authority(), authorities)?)
        } else {
            Channel::Plain {
                url: parsed,
                connection: None,
            }
        };
        Ok(Self {
            shown: url.trim_end_matches('/').to_owned(),
            bearer: token.map(|token| format!("Bearer {token}")),
            read_timeout: None,
            channel,
        })
    }

    /// Limits how long the server may be silent within an answer. There is no limit without this.
    pub fn set_read_timeout(&mut self, timeout: Duration) {
        self.read_timeout = Some(timeout);
    }

    /// Publishes `payload` about `subject`.
    ///
    /// # Errors
    ///
    /// When the connection fails, the server is silent for longer than the read timeout, or it
    /// answers with an error: the sentence contains what the server said.
    pub fn publish(
        &mut self,
        subject: &str,
        payload: &[u8],
        labels: EventMetadata<'_>,
    ) -> Outcome<Receipt> {
        let path = with_kind(
            format!("/v1/publish/{}", encode_segment(subject)),
            labels.kind,
        );
        self.receipt(&path, payload, labels)
    }

    /// Publishes `payload` about `subject` without waiting for the workers' turns.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn publish_early(&mut self, subject: &str, payload: &[u8]) -> Outcome<()> {
        let path = format!("/v1/publish/{}?receipt=early", encode_segment(subject));
        self.call("POST", &path, Some(TEXT), RequestBody::Bytes(payload))
            .map(drop)
    }

    /// Sends `payload` to the sessions of `id` alone.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn send(
        &mut self,
        id: &str,
        payload: &[u8],
        labels: EventMetadata<'_>,
    ) -> Outcome<Receipt> {
        let path = with_kind(format!("/v1/send/{}", encode_segment(id)), labels.kind);
        self.receipt(&path, payload, labels)
    }

    /// Subscribes `subscriber` to `subject`; whether it was not subscribed before.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn subscribe(&mut self, subscriber: &str, subject: &str) -> Outcome<bool> {
        let answer = self.call("PUT", &edge(subscriber, subject), None, RequestBody::None)?;
        changed(&answer, "added")
    }

    /// Ends a subscription; whether there was one.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn unsubscribe(&mut self, subscriber: &str, subject: &str) -> Outcome<bool> {
        let answer = self.call(
            "DELETE",
            &edge(subscriber, subject),
            None,
            RequestBody::None,
        )?;
        changed(&answer, "removed")
    }

    /// The sessions of `id`.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn sessions(&mut self, id: &str) -> Outcome<Value> {
        let path = format!("/v1/sessions/{}", encode_segment(id));
        self.call("GET", &path, None, RequestBody::None)
    }

    /// Whether `subscriber` would get what is published about `subject`, and why.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn explain_delivery(&mut self, subject: &str, subscriber: &str) -> Outcome<Value> {
        let (subject, subscriber) = (encode_segment(subject), encode_segment(subscriber));
        let path = format!("/v1/explain?subject={subject}&subscriber={subscriber}");
        self.call("GET", &path, None, RequestBody::None)
    }

    /// Returns which of `ids` are online.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish), and when the server does not keep presence.
    pub fn which_online(&mut self, ids: &[String]) -> Outcome<Value> {
        self.post("/v1/online", &json!(ids))
    }

    /// Logs out the sessions of `id` and closes them.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn close_sessions(&mut self, id: &str) -> Outcome<Value> {
        let path = format!("/v1/sessions/{}", encode_segment(id));
        self.call("DELETE", &path, None, RequestBody::None)
    }

    /// Issues a ticket for `ids`, to be used first within `ttl`.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn issue_ticket(&mut self, ids: &[String], ttl: Duration) -> Outcome<Value> {
        let request = json!({"ids": ids, "ttl": ttl.as_secs()});
        self.post("/v1/tickets", &request)
    }

    /// Revokes what was issued to `id` before a time, in seconds since 1970; by default before now.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn revoke(&mut self, id: &str, before: Option<u64>) -> Outcome<Value> {
        let request = match before {
            Some(before) => json!({"id": id, "before": before}),
            None => json!({"id": id}),
        };
        self.post("/v1/revocations", &request)
    }

    /// Revokes the token with this `jti`.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn revoke_token(&mut self, jti: &str) -> Outcome<Value> {
        self.post("/v1/revocations", &json!({"jti": jti}))
    }

    /// Posts JSON.
    fn post(&mut self, path: &str, request: &Value) -> Outcome<Value> {
        let body = request.to_string();
        let body = RequestBody::Bytes(body.as_bytes());
        self.call("POST", path, Some("application/json"), body)
    }

    /// The sessions that are owed most, `limit` of them at most.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn slowest(&mut self, limit: usize) -> Outcome<Value> {
        let path = format!("/v1/slowest?limit={limit}");
        self.call("GET", &path, None, RequestBody::None)
    }

    /// The server's statistics.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn stats(&mut self) -> Outcome<Value> {
        self.call("GET", "/v1/stats", None, RequestBody::None)
    }

    /// The cluster that the server is a node of.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn cluster(&mut self) -> Outcome<Value> {
        self.call("GET", "/v1/cluster", None, RequestBody::None)
    }

    /// Drains a node of the cluster.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn drain_node(&mut self, node: &str) -> Outcome<Value> {
        let path = format!("/v1/cluster/nodes/{}/drain", encode_segment(node));
        self.call("POST", &path, None, RequestBody::None)
    }

    /// Whether the server says that it is well.
    pub fn is_healthy(&mut self) -> bool {
        self.call("GET", "/healthz", None, RequestBody::None)
            .is_ok()
    }

    /// Whether the server says that it is ready for clients.
    pub fn is_ready(&mut self) -> bool {
        self.call("GET", "/readyz", None, RequestBody::None).is_ok()
    }

    /// Reads a JSON document of the server.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn read(&mut self, path: &str) -> Outcome<Value> {
        self.call("GET", path, None, RequestBody::None)
    }

    /// Adds many edges: lines of `subscriber subject`.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish), and when `edges` cannot be read.
    pub fn subscribe_many(&mut self, edges: &mut dyn Read) -> Outcome<Value> {
        self.stream("/v1/subscriptions", "text/plain", edges)
    }

    /// Removes many edges.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish), and when `edges` cannot be read.
    pub fn unsubscribe_many(&mut self, edges: &mut dyn Read) -> Outcome<Value> {
        self.stream("/v1/subscriptions/remove", "text/plain", edges)
    }

    /// Copies the server's graph to `out`, as the file of a data directory.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish), and when `out` cannot be written.
    pub fn backup(&mut self, out: &mut dyn Write) -> Outcome<()> {
        self.download("/v1/graph/backup", out)
    }

    /// Copies to `out` the original terms of ids that Erlang nodes have added, as the file of a
    /// data directory. Writes nothing if there are none.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish), and when `out` cannot be written.
    pub fn backup_erlang_ids(&mut self, out: &mut dyn Write) -> Outcome<()> {
        self.download("/v1/graph/backup/erlang-ids", out)
    }

    /// Publishes a ready NDJSON batch and returns its one summary.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish), and when `batch` cannot be read.
    pub fn publish_batch(&mut self, batch: &mut dyn Read) -> Outcome<Value> {
        self.stream(
            "/v1/publish?receipts=summary",
            "application/x-ndjson",
            batch,
        )
    }

    fn receipt(
        &mut self,
        path: &str,
        payload: &[u8],
        labels: EventMetadata<'_>,
    ) -> Outcome<Receipt> {
        let content_type = labels.content_type.unwrap_or(TEXT);
        let value = self.call(
            "POST",
            path,
            Some(content_type),
            RequestBody::Bytes(payload),
        )?;
        serde_json::from_value(value).context("reading the receipt")
    }
}

fn edge(subscriber: &str, subject: &str) -> String {
    format!(
        "/v1/subscriptions/{}/{}",
        encode_segment(subscriber),
        encode_segment(subject)
    )
}

/// Whether the one edge of a call is among those that `member` of the answer counts.
fn changed(answer: &Value, member: &str) -> Outcome<bool> {
    let count = answer[member].as_u64().ok_or_else(|| {
        Failure::new(format!(
            "the answer does not say how many edges were {member}: is the server as new as this \
             program?"
        ))
    })?;
    Ok(count > 0)
}

fn with_kind(path: String, kind: Option<&str>) -> String {
    match kind {
        Some(kind) => format!("{path}?type={}", encode_segment(kind)),
        None => path,
    }
}
