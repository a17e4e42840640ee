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

    /// Explains why a request over TLS failed.
    pub(super) fn explain_secure(&self, error: ureq::Error) -> Failure {
        let url = &self.shown;
        let other = |text: String| self.explain(&io::Error::other(text));
        match error {
            ureq::Error::Io(error) => match tls::handshake_error(&error) {
                Some(error) => self.explain_tls(error),
                None => self.explain(&error),
            },
            ureq::Error::Rustls(error) => self.explain_tls(&error),
            ureq::Error::Timeout(_) => self.explain(&io::ErrorKind::TimedOut.into()),
            ureq::Error::HostNotFound => {
                other(format!("no address is known for the host of {url}"))
            }
            ureq::Error::Protocol(error) => {
                self.explain(&io::Error::new(io::ErrorKind::InvalidData, error))
            }
            error => other(error.to_string()),
        }
    }

    fn explain_tls(&self, error: &rustls::Error) -> Failure {
        Failure::new(tls::explain(&self.shown, error))
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
        let detail = problem_detail(&bytes);
        let detail = if detail.is_empty() {
            "no reason given".to_owned()
        } else {
            detail
        };
        Failure::new(format!("{url} answered {}: {detail}", status))
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
    String::from_utf8_lossy(body)
        .lines()
        .next()
        .unwrap_or("")
        .trim()
        .to_owned()
}
