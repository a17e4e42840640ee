//! A client of Encke's control API, for the commands. Its errors say what to do.

mod exchange;
mod lines;
mod refusal;
#[cfg(test)]
mod tests;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use refusal::problem_detail;

use crate::http::{Connection, RequestBody, Url, encode_segment};
use crate::tls::Authorities;
use machine::failure::{Context, Failure, Outcome};

/// Default `Content-Type` of a payload.
const TEXT: &str = "text/plain; charset=utf-8";

/// Receipt of a published event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The event id; empty in a summary of several events.
    #[serde(default)]
    pub id: String,
    /// Number of ids that are subscribed.
    pub subscribers: u64,
    /// Number of those ids that are online.
    pub online: u64,
    /// Number of sessions to which the event was written.
    pub written: u64,
    /// Number of sessions in whose backlog the event waits.
    pub queued: u64,
    /// Number of sessions that lost the event.
    pub shed: u64,
    /// Other members of the receipt.
    #[serde(flatten)]
    pub more: serde_json::Map<String, Value>,
}

/// Metadata of an event, besides its subject.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventMetadata<'a> {
    /// `Content-Type` of the payload.
    pub content_type: Option<&'a str>,
    /// The event's type, which is delivered with it.
    pub kind: Option<&'a str>,
}

/// A client of a control listener, over `http` or `https`. It keeps its connection between calls.
#[derive(Debug)]
pub struct ControlClient {
    shown: String,
    url: Url,
    /// The configuration of TLS, for an `https` URL.
    tls: Option<Arc<ClientConfig>>,
    bearer: Option<String>,
    read_timeout: Option<Duration>,
    connection: Option<Connection>,
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

    /// Creates a client that trusts `authorities`.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new), and when the authorities cannot be used.
    pub fn trusting(authorities: &Authorities, url: &str, token: Option<&str>) -> Outcome<Self> {
        let parsed = Url::parse(url)?;
        let tls = parsed.is_secure().then(|| authorities.config());
        Ok(Self {
            shown: url.trim_end_matches('/').to_owned(),
            url: parsed,
            tls: tls.transpose()?.map(Arc::new),
            bearer: token.map(|token| format!("Bearer {token}")),
            read_timeout: None,
            connection: None,
        })
    }

    /// Limits how long a read may wait for bytes of a response. By default there is no limit.
    pub fn set_read_timeout(&mut self, timeout: Duration) {
        self.read_timeout = Some(timeout);
    }

    /// Publishes `payload` about `subject`.
    ///
    /// # Errors
    ///
    /// When the connection fails, a read takes longer than the read timeout, or the server answers
    /// with an error. The error text contains the server's.
    pub fn publish(
        &mut self,
        subject: &str,
        payload: &[u8],
        labels: EventMetadata<'_>,
    ) -> Outcome<Receipt> {
        self.receipt(
            format!("/v1/publish/{}", encode_segment(subject)),
            payload,
            labels,
        )
    }

    /// Publishes `payload` about `subject` without waiting for the workers to deliver it.
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
        self.receipt(format!("/v1/send/{}", encode_segment(id)), payload, labels)
    }

    /// Subscribes `subscriber` to `subject`. Returns whether the subscription is new.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn subscribe(&mut self, subscriber: &str, subject: &str) -> Outcome<bool> {
        let answer = self.call("PUT", &edge(subscriber, subject), None, RequestBody::None)?;
        changed(&answer, "added")
    }

    /// Removes a subscription. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn unsubscribe(&mut self, subscriber: &str, subject: &str) -> Outcome<bool> {
        let path = edge(subscriber, subject);
        let answer = self.call("DELETE", &path, None, RequestBody::None)?;
        changed(&answer, "removed")
    }

    /// Returns the sessions of `id`.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn sessions(&mut self, id: &str) -> Outcome<Value> {
        self.read(&format!("/v1/sessions/{}", encode_segment(id)))
    }

    /// Explains whether `subscriber` would receive an event about `subject` now.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn explain_delivery(&mut self, subject: &str, subscriber: &str) -> Outcome<Value> {
        let (subject, subscriber) = (encode_segment(subject), encode_segment(subscriber));
        self.read(&format!(
            "/v1/explain?subject={subject}&subscriber={subscriber}"
        ))
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

    /// Issues a ticket for `ids`, whose first use must be within `ttl`.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn issue_ticket(&mut self, ids: &[String], ttl: Duration) -> Outcome<Value> {
        self.post("/v1/tickets", &json!({"ids": ids, "ttl": ttl.as_secs()}))
    }

    /// Revokes the tokens and tickets of `id` that were issued before a time in seconds since 1970;
    /// by default before now.
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

    /// Sends a POST request with a JSON body.
    fn post(&mut self, path: &str, request: &Value) -> Outcome<Value> {
        let body = request.to_string();
        let body = RequestBody::Bytes(body.as_bytes());
        self.call("POST", path, Some("application/json"), body)
    }

    /// Returns the sessions with the largest backlogs, at most `limit` of them.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn slowest(&mut self, limit: usize) -> Outcome<Value> {
        self.read(&format!("/v1/slowest?limit={limit}"))
    }

    /// Returns the server's statistics.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn stats(&mut self) -> Outcome<Value> {
        self.read("/v1/stats")
    }

    /// Returns the state of the cluster that the server is a node of.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn cluster(&mut self) -> Outcome<Value> {
        self.read("/v1/cluster")
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

    /// Returns whether the server answers that it is healthy.
    pub fn is_healthy(&mut self) -> bool {
        self.read("/healthz").is_ok()
    }

    /// Returns whether the server answers that it is ready for clients.
    pub fn is_ready(&mut self) -> bool {
        self.read("/readyz").is_ok()
    }

    /// Fetches the JSON document at `path`.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish).
    pub fn read(&mut self, path: &str) -> Outcome<Value> {
        self.call("GET", path, None, RequestBody::None)
    }

    /// Adds subscriptions in bulk. `edges` has a line `subscriber subject` for each.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish), and when `edges` cannot be read.
    pub fn subscribe_many(&mut self, edges: &mut dyn Read) -> Outcome<Value> {
        self.stream("/v1/subscriptions", "text/plain", edges)
    }

    /// Copies the server's graph to `out`, in the format of the file in a data directory.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish), and when `out` cannot be written.
    pub fn backup(&mut self, out: &mut dyn Write) -> Outcome<()> {
        self.download("/v1/graph/backup", out)
    }

    /// Copies the original terms of ids that Erlang nodes have added to `out`, in the format of the
    /// file in a data directory. Writes nothing if there are none.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish), and when `out` cannot be written.
    pub fn backup_erlang_ids(&mut self, out: &mut dyn Write) -> Outcome<()> {
        self.download("/v1/graph/backup/erlang-ids", out)
    }

    /// Publishes an NDJSON batch and returns the summary of its receipts.
    ///
    /// # Errors
    ///
    /// Those of [`publish`](Self::publish), and when `batch` cannot be read.
    pub fn publish_batch(&mut self, batch: &mut dyn Read) -> Outcome<Value> {
        let path = "/v1/publish?receipts=summary";
        self.stream(path, "application/x-ndjson", batch)
    }

    fn receipt(
        &mut self,
        mut path: String,
        payload: &[u8],
        labels: EventMetadata<'_>,
    ) -> Outcome<Receipt> {
        if let Some(kind) = labels.kind {
            path += &format!("?type={}", encode_segment(kind));
        }
        let content_type = Some(labels.content_type.unwrap_or(TEXT));
        let value = self.call("POST", &path, content_type, RequestBody::Bytes(payload))?;
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

/// Returns whether a request about one edge has changed it, by the count in `member` of the answer.
fn changed(answer: &Value, member: &str) -> Outcome<bool> {
    let count = answer[member].as_u64().ok_or_else(|| {
        Failure::new(format!(
            "the answer does not say how many subscriptions were {member}: update the server, or \
             use a program as old as the server"
        ))
    })?;
    Ok(count > 0)
}
