//! Error texts of failed calls, which say what to do.

use std::io::{self, Read};

use serde_json::Value;

use super::ControlClient;
use crate::tls;
use machine::failure::Failure;

/// Bytes of an error response's body that are read.
const DETAIL_MAX: u64 = 64 * 1024;

impl ControlClient {
    pub(super) fn explain(&self, error: &io::Error) -> Failure {
        let url = &self.shown;
        if let Some(error) = tls::handshake_error(error) {
            return Failure::new(tls::explain(url, error));
        }
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

    /// Explains why the server refused a request: by its problem details, or by the remedy if the
    /// token is wrong.
    pub(super) fn refusal(&self, status: u16, body: &mut dyn Read) -> Failure {
        let mut bytes = Vec::new();
        let _ = body.take(DETAIL_MAX).read_to_end(&mut bytes);
        let url = &self.shown;
        if matches!(status, 401 | 403) {
            let found = if self.bearer.is_some() {
                "another"
            } else {
                "a"
            };
            return Failure::new(format!(
                "{url} requires {found} token: pass --control-token with the one of \
                 `encke serve`"
            ));
        }
        let mut detail = problem_detail(&bytes);
        if detail.is_empty() {
            detail.push_str("no reason given");
        }
        Failure::new(format!("{url} answered {status}: {detail}"))
    }
}

/// Returns the `detail` or `title` of problem details (RFC 9457), else the first line of the text.
pub fn problem_detail(body: &[u8]) -> String {
    if let Ok(Value::Object(problem)) = serde_json::from_slice::<Value>(body) {
        for member in ["detail", "title"] {
            if let Some(Value::String(text)) = problem.get(member) {
                return text.clone();
            }
        }
    }
    let text = String::from_utf8_lossy(body);
    text.lines().next().unwrap_or("").trim().to_owned()
}
