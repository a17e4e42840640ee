//! Long polling: one request after the other, each answered with the events since the one before.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::time::Instant;

use super::event::{Item, items_of_array};
use super::stream::is_timeout;
use super::{Client, Ended, Notification, SILENCE_MAX, STOP_CHECK_INTERVAL, Wait};
use crate::http::{Connection, Response};

/// Response field that has the cursor after the response.
const CURSOR_FIELD: &str = "Encke-Cursor";

impl Client<'_> {
    /// Polls over one connection until it ends.
    pub(super) fn poll(&mut self, tell: &mut impl FnMut(Notification) -> ControlFlow<()>) -> Ended {
        let mut connection = match self.request.connect() {
            Ok(connection) => connection,
            Err(error) => return self.lost(&error),
        };
        let mut is_first = true;
        loop {
            self.place.received.reconnect();
            let after = self.place.after().map(str::to_owned);
            let (answer, body) = match self.ask(&mut connection) {
                Ok(Some(answered)) => answered,
                Ok(None) => return Ended::ByUs,
                Err(error) => return self.lost(&error),
            };
            if !matches!(answer.status, 200 | 204) {
                return self.refused(&answer, &body);
            }
            self.backoff.succeed();
            if std::mem::take(&mut is_first) && tell(Notification::Connected(after)).is_break() {
                return Ended::ByUs;
            }
            let mut items = items_of_array(&body);
            if let Some(cursor) = answer.head().get(CURSOR_FIELD) {
                items.push(Item::Cursor(cursor.to_owned()));
            }
            if self.pass(items, tell).is_break() || self.should_stop() {
                return Ended::ByUs;
            }
            if connection.must_close() {
                let reason = "the server ended the connection".to_owned();
                return Ended::ForNow(reason, Wait::Jitter);
            }
        }
    }

    /// Makes one poll. Returns `None` if the caller wants to stop.
    fn ask(&mut self, connection: &mut Connection) -> io::Result<Option<(Response, Vec<u8>)>> {
        self.request.send(&self.place, connection)?;
        connection.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
        let asked = Instant::now();
        while let Err(error) = connection.wait() {
            if !is_timeout(&error) || asked.elapsed() > SILENCE_MAX {
                return Err(error);
            }
            if self.should_stop() {
                return Ok(None);
            }
        }
        connection.set_read_timeout(Some(SILENCE_MAX))?;
        let answer = connection.read_head()?;
        let mut body = Vec::new();
        connection.body(&answer).read_to_end(&mut body)?;
        Ok(Some((answer, body)))
    }
}
