//! Centrifugo, a server to compare with.
//!
//! Source: its documentation, version 5: unidirectional SSE transport, server HTTP API, history and
//! recovery.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::child::{self, OwnedChild};
use client::http::{Connection, RequestBody, Url};
use machine::failure::{Context, Failure, Outcome};

/// Time limit for it to listen.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A JSON Web Token that subscribes its client to the channel `all`, signed by HS256 with `bench`:
/// `{"sub":"bench","channels":["all"]}`.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
                     eyJzdWIiOiJiZW5jaCIsImNoYW5uZWxzIjpbImFsbCJdfQ.\
                     TXS74SD2feKxiCUXYd1T0sGvubpAtdh2tf4a9aHTuqg";

/// Channel of the token.
const CHANNEL: &str = "all";

/// Running Centrifugo with the memory engine.
#[derive(Debug)]
pub(crate) struct Centrifugo {
    child: OwnedChild,
    _directory: TempDir,
    address: SocketAddr,
    api: Connection,
}

impl Centrifugo {
    /// Starts `program`, which keeps `messages` messages of a channel.
    pub(crate) fn start(program: &Path, address: SocketAddr, messages: u32) -> Outcome<Self> {
        let directory = child::directory("encke-bench-centrifugo-")?;
        let path = directory.path().join("config.json");
        let settings = json!({
            "address": address.ip().to_string(),
            "port": address.port().to_string(),
            "token_hmac_secret_key": "bench",
            "api_insecure": true,
            "uni_sse": true,
            "history_size": messages,
            "history_ttl": "1h",
            "force_recovery": true,
            "log_level": "error",
        });
        fs::write(&path, settings.to_string()).context("writing the settings of Centrifugo")?;
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut child = OwnedChild::spawn(&mut command)?;
        let listens = || TcpStream::connect(address).is_ok();
        if !child.wait_until(START_TIMEOUT, listens)? {
            return Err(Failure::new("Centrifugo did not start to listen"));
        }
        let url = Url::parse(&format!("http://{address}"))?;
        let api = Connection::open(&url, None).context("connecting to Centrifugo")?;
        Ok(Self {
            child,
            _directory: directory,
            address,
            api,
        })
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Publishes a message to the channel [`CHANNEL`].
    pub(crate) fn publish(&mut self, text: &str) -> Outcome<()> {
        let message = json!({ "channel": CHANNEL, "data": text });
        self.call("publish", &message).map(drop)
    }

    /// Returns the URL of a stream that recovers all messages of the channel. They arrive in one
    /// event, the answer to the connect command.
    pub(crate) fn recovery_url(&mut self) -> Outcome<String> {
        let history = self.call("history", &json!({ "channel": CHANNEL, "limit": 0 }))?;
        let epoch = &history["epoch"];
        let place = json!({ "recover": true, "epoch": epoch, "offset": 0 });
        let connect = json!({ "token": TOKEN, "subs": { CHANNEL: place } }).to_string();
        let encoded: String = connect.bytes().map(|byte| format!("%{byte:02X}")).collect();
        Ok(format!(
            "http://{}/connection/uni_sse?cf_connect={encoded}",
            self.address
        ))
    }

    fn call(&mut self, method: &str, request: &Value) -> Outcome<Value> {
        let (path, body) = (format!("/api/{method}"), request.to_string());
        let fields = [("Content-Type", "application/json")];
        let body = RequestBody::Bytes(body.as_bytes());
        let answered = self.api.exchange("POST", &path, &fields, body);
        let (answer, body) = answered.context("calling Centrifugo")?;
        let mut told: Value = serde_json::from_slice(&body).unwrap_or_default();
        match told["result"].take() {
            Value::Object(result) if answer.status == 200 => Ok(Value::Object(result)),
            _ => Err(Failure::new(format!(
                "Centrifugo answered a call of {method} with {}: {told}",
                answer.status
            ))),
        }
    }
}
