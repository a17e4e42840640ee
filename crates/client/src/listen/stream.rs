//! Streams: one response that continues until it breaks.

use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::event::Decoder;
use super::{Client, Ended, Notification, SILENCE_MAX, STOP_CHECK_INTERVAL, Start, Wait};
use crate::decode::{Transport, websocket};
use crate::http::{Connection, Part, Response, Url};
use crate::tls;
use machine::failure::Failure;

/// Status of a response that opens a WebSocket.
const SWITCHING_PROTOCOLS: u16 = 101;

impl Client<'_> {
    /// Opens one stream and reads it to its end.
    pub(super) fn stream(
        &mut self,
        tell: &mut impl FnMut(Notification) -> ControlFlow<()>,
    ) -> Ended {
        let (mut connection, mut answer) = match self.open() {
            Ok(opened) => opened,
            Err(ended) => return ended,
        };
        self.place.received.reconnect();
        let after = self.place.after().map(str::to_owned);
        if self.request.options.transport == Transport::Chunks {
            // Without event ids there is no cursor to continue after.
            self.place.start = Start::Live;
        }
        if tell(Notification::Connected(after)).is_break() {
            return Ended::ByUs;
        }
        if let Err(error) = connection.set_read_timeout(Some(STOP_CHECK_INTERVAL)) {
            return self.lost(&error);
        }
        let mut decoder = Decoder::new(self.request.options.transport, self.request.options.whole);
        let (mut bytes, mut heard) = (Vec::new(), Instant::now());
        // The reconnect delay that the server sent on this connection.
        let mut told = None;
        loop {
            if self.should_stop() {
                return Ended::ByUs;
            }
            let part = match connection.read_part(&mut answer, &mut bytes) {
                Ok(Part::End) => {
                    let wait = told.map_or(Wait::Jitter, Wait::AsTold);
                    return Ended::ForNow("the server ended the stream".to_owned(), wait);
                }
                Ok(part) => part,
                Err(error) if is_timeout(&error) && heard.elapsed() < SILENCE_MAX => continue,
                Err(error) => return self.lost(&error),
            };
            heard = Instant::now();
            // Only input resets the backoff: a server that is about to fail may still accept.
            self.backoff.succeed();
            let decoded = match decoder.read(&mut bytes, part) {
                Ok(decoded) => decoded,
                Err(malformed) => return Ended::ForNow(malformed.to_string(), Wait::Jitter),
            };
            if let Some(base) = decoded.retry {
                self.backoff.set_base(base);
                told = Some(base);
            }
            if self.pass(decoded.items, tell).is_break() {
                return Ended::ByUs;
            }
            if !decoded.answer.is_empty()
                && let Err(error) = connection.write_raw(&decoded.answer)
            {
                return self.lost(&error);
            }
            if let Some(code) = decoded.closed {
                let reason = format!("the server closed the WebSocket with code {code}");
                return Ended::ForNow(reason, Wait::Jitter);
            }
        }
    }

    /// Connects and sends the request. The response opens a stream.
    fn open(&mut self) -> Result<(Connection, Response), Ended> {
        let asked = self.request.connect().and_then(|mut connection| {
            self.request.send(&self.place, &mut connection)?;
            let answer = connection.read_head()?;
            Ok((connection, answer))
        });
        let (mut connection, answer) = asked.map_err(|error| self.lost(&error))?;
        match (self.request.options.transport, answer.status) {
            (Transport::WebSocket, SWITCHING_PROTOCOLS) => {
                let key = self.request.websocket_key();
                websocket::check(&answer.head(), &key)
                    .map_err(|malformed| Ended::ForGood(Failure::new(malformed.to_string())))?;
            }
            (Transport::WebSocket, 200) => {
                return Err(Ended::ForGood(Failure::new(format!(
                    "{} answered 200 and did not open a WebSocket: use another --transport",
                    self.request.url.authority()
                ))));
            }
            (_, 200) => {}
            _ => {
                let mut body = Vec::new();
                let _ = connection.body(&answer).next(&mut body);
                return Err(self.refused(&answer, &body));
            }
        }
        Ok((connection, answer))
    }

    /// Returns how to continue after a response that opens no stream.
    pub(super) fn refused(&self, answer: &Response, body: &[u8]) -> Ended {
        let authority = self.request.url.authority();
        let status = answer.status;
        if status == 204 {
            return Ended::ForGood(Failure::new("the server has no more events (204)"));
        }
        let line = String::from_utf8_lossy(body);
        let line = line.lines().next().unwrap_or("").trim();
        let said = match (line.trim_end_matches('.'), status) {
            ("", 401) => "a token or a ticket is required",
            ("", 403) => "you may not read all of these ids",
            (line, _) => line,
        };
        let remedy = match (status, self.request.options.credential.is_some()) {
            (401, false) => "; pass --token-file or --ticket",
            _ => "",
        };
        let sentence = format!("{authority} answered {status}: {said}{remedy}");
        if status >= 500 || status == 429 || status == 408 {
            let least = Duration::from_secs(answer.retry_after.unwrap_or(0).min(300));
            Ended::ForNow(sentence, Wait::AtLeast(least))
        } else {
            Ended::ForGood(Failure::new(sentence))
        }
    }

    /// Returns how to continue after an error of the connection.
    pub(super) fn lost(&self, error: &io::Error) -> Ended {
        let url = self.request.url;
        match tls::handshake_error(error) {
            // A retry would meet the same certificate.
            Some(error) => Ended::ForGood(Failure::new(tls::explain(url.authority(), error))),
            None => Ended::ForNow(reason(error, url), Wait::Jitter),
        }
    }
}

fn reason(error: &io::Error, url: &Url) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("nothing listens at {}", url.authority()),
        io::ErrorKind::UnexpectedEof => "the server ended the stream".to_owned(),
        io::ErrorKind::ConnectionReset => "the server reset the connection".to_owned(),
        _ if is_timeout(error) => "the server sent nothing for too long".to_owned(),
        _ => error.to_string(),
    }
}

pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
