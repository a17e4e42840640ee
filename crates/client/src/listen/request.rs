//! The request of a subscriber: path, credential, and the cursor to continue after.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;

use super::{Credential, Options, Place, SILENCE_MAX, Start};
use crate::decode::{Transport, websocket};
use crate::http::{Connection, RequestBody, Url, encode_segment};
use machine::failure::{Failure, Outcome};

/// Seconds for which the server may keep a poll open while there is no event.
const POLL_WAIT_SECONDS: u32 = 25;

/// The request that is sent on each connection. Lives as long as the subscriber.
pub(super) struct Request<'a> {
    pub(super) options: &'a Options,
    pub(super) url: &'a Url,
    /// The configuration of TLS, for an `https` URL.
    tls: Option<Arc<ClientConfig>>,
    path: String,
    /// Parameters of the query that every request has.
    query: Vec<String>,
    /// Value of `Authorization`, if there is a token.
    bearer: Option<String>,
    /// Requests sent.
    count: u32,
}

impl<'a> Request<'a> {
    pub(super) fn new(options: &'a Options, url: &'a Url) -> Outcome<Self> {
        let Some(folder) = options.transport.folder() else {
            return Err(Failure::new("bytes that hold no events are not events"));
        };
        let mut path = format!("{}/{folder}", url.path().trim_end_matches('/'));
        for (place, id) in options.ids.iter().enumerate() {
            path.push(if place == 0 { '/' } else { ',' });
            path.push_str(&encode_segment(id));
        }
        let (mut query, mut bearer) = (Vec::new(), None);
        match &options.credential {
            Some(Credential::Token(token)) => bearer = Some(format!("Bearer {token}")),
            Some(Credential::Ticket(ticket)) => {
                query.push(format!("ticket={}", encode_segment(ticket)));
            }
            None => {}
        }
        if options.transport == Transport::Sse && options.whole {
            query.push("format=json".to_owned());
        }
        if options.presence {
            query.push("presence=1".to_owned());
        }
        let tls = url.is_secure().then(|| options.authorities.config());
        Ok(Self {
            options,
            url,
            tls: tls.transpose()?.map(Arc::new),
            path,
            query,
            bearer,
            count: 0,
        })
    }

    /// Connects.
    pub(super) fn connect(&self) -> io::Result<Connection> {
        let connection = Connection::open(self.url, self.tls.as_ref())?;
        connection.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(connection)
    }

    /// Sends the request for the events after `place`.
    pub(super) fn send(&mut self, place: &Place, connection: &mut Connection) -> io::Result<()> {
        self.count = self.count.wrapping_add(1);
        let key = self.websocket_key();
        let mut fields = Vec::new();
        if let Some(bearer) = &self.bearer {
            fields.push(("Authorization", &bearer[..]));
        }
        if self.options.transport == Transport::WebSocket {
            fields.extend([
                ("Upgrade", "websocket"),
                ("Connection", "Upgrade"),
                ("Sec-WebSocket-Version", "13"),
                ("Sec-WebSocket-Key", &key[..]),
            ]);
        }
        let mut query = self.query.clone();
        let is_poll = self.options.transport == Transport::Poll;
        if is_poll {
            // Presence comes with a response, so the first poll must not wait for an event.
            let is_urgent = self.options.presence && self.count == 1;
            let wait = if is_urgent { 0 } else { POLL_WAIT_SECONDS };
            query.push(format!("wait={wait}"));
        }
        match (place.after(), &place.start) {
            (Some(id), _) if is_poll => {
                query.push(format!("cursor={}", encode_segment(id)));
            }
            // A line break in the value would end the field. No valid id has one.
            (Some(id), _) if id.chars().all(|one| !one.is_control()) => {
                fields.push(("Last-Event-ID", id));
            }
            (_, Start::Earliest) => query.push("cursor=earliest".to_owned()),
            (_, Start::Rewind(count)) => query.push(format!("rewind={count}")),
            _ => {}
        }
        let path = match query.is_empty() {
            true => self.path.clone(),
            false => format!("{}?{}", self.path, query.join("&")),
        };
        connection.write("GET", &path, &fields, RequestBody::None)
    }

    /// Returns the `Sec-WebSocket-Key` of the last request.
    pub(super) fn websocket_key(&self) -> String {
        websocket::key(self.options.seed, self.count)
    }
}
