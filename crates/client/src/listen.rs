//! One stream, followed: connects, decodes, and comes back with jitter when the server goes.
//!
//! Owns the place in the stream: a client that comes back asks for what it missed, and passes on
//! no event twice.

mod event;
mod request;
mod stream;
mod poll;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::backoff::Backoff;
use crate::decode::event_id::EventId;
use crate::http::Url;
use crate::received::{Arrival, Received};
use crate::tls::Authorities;
use machine::failure::{Failure, Outcome};

use event::Item;
pub use event::{Event, Presence, Reset};
use request::Request;

/// How often a wait looks whether it should stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Silence after which the connection is taken for dead: three heartbeats of the longest usual
/// interval.
const SILENCE_MAX: Duration = Duration::from_secs(180);

/// What to follow.
#[derive(Debug, Clone)]
pub struct Options {
    /// The public listener.
    pub url: String,
    /// Authorities that an `https` server's certificate must be issued by.
    pub authorities: Authorities,
    /// Ids to log in as. None means those that the credential stands for.
    pub ids: Vec<String>,
    /// What proves who the client is, if the server wants that.
    pub credential: Option<Credential>,
    /// How the events come.
    pub transport: Transport,
    /// Where to start.
    pub start: Start,
    /// Whether events are wanted with all that is known of them, not only with their payload.
    pub whole: bool,
    /// Whether the server is asked who is online.
    pub presence: bool,
    /// Seed of the jitter.
    pub seed: u64,
}

/// How the events of one client come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Server-Sent Events.
    Sse,
    /// One JSON object in each line.
    Ndjson,
    /// One JSON object in each message.
    WebSocket,
    /// An array of JSON objects in each answer.
    Poll,
    /// Each chunk is a payload. Has no ids, so nothing that was missed comes later.
    Chunks,
}

/// Where in the stream a client starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With what is published from now on.
    Live,
    /// With what was published after this event id.
    After(String),
    /// With the oldest event that the server has.
    Earliest,
    /// With the last events of each subject, so many.
    Rewind(u8),
}

/// What proves who a client is. Its `Debug` hides the secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A token, sent as `Authorization: Bearer`.
    Token(String),
    /// A ticket, sent in the query.
    Ticket(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Token(_) => "Token(…)",
            Self::Ticket(_) => "Ticket(…)",
        })
    }
}

/// What happened to the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// The server answered. The client asked for what came after this event id.
    Connected(Option<String>),
    /// An event came that had not come before.
    Event(Event),
    /// The server cannot give all that was missed.
    Reset(Reset),
    /// The server dropped so many events, because the client read too slowly.
    Gap(u64),
    /// The server says who is online.
    Presence(Presence),
    /// The stream is gone for this reason and will be tried again after this time.
    Lost(String, Duration),
}

/// Follows the stream until `stop` is set, `tell` breaks, or the server refuses for good.
///
/// # Errors
///
/// When the URL is invalid, the authorities cannot be used, or the server refuses in a way that a
/// retry cannot change, or its certificate is not trusted. A stream that breaks is a
/// [`Notification::Lost`], and no error.
pub fn listen(
    options: &Options,
    stop: &AtomicBool,
    mut tell: impl FnMut(Notification) -> ControlFlow<()>,
) -> Outcome<()> {
    let url = Url::parse(&options.url)?;
    let request = Request::new(options, &url)?;
    let mut client = Client {
        request,
        place: Place::new(options.start.clone()),
        backoff: Backoff::seeded(options.seed),
        stop,
    };
    loop {
        let ended = match options.transport {
            Transport::Poll => client.poll(&mut tell),
            _ => client.stream(&mut tell),
        };
        let wait = match ended {
            Ended::ByUs => return Ok(()),
            Ended::ForGood(failure) => return Err(failure),
            Ended::ForNow(reason, wait) => {
                let wait = match wait {
                    Wait::Jitter => client.backoff.next_wait(),
                    Wait::AtLeast(least) => client.backoff.next_wait().max(least),
                    Wait::AsTold(wait) => wait,
                };
                if tell(Notification::Lost(reason, wait)).is_break() {
                    return Ok(());
                }
                wait
            }
        };
        if !sleep(wait, stop) {
            return Ok(());
        }
    }
}

/// One client over all its connections.
struct Client<'a> {
    request: Request<'a>,
    place: Place,
    backoff: Backoff,
    stop: &'a AtomicBool,
}

impl Client<'_> {
    fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Passes on what came; an event that came before is dropped.
    fn pass(
        &mut self,
        items: Vec<Item>,
        tell: &mut impl FnMut(Notification) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for item in items {
            if let Some(notification) = self.place.take(item) {
                tell(notification)?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Where in the stream a client is.
struct Place {
    /// Until there is an id.
    start: Start,
    /// The last event id, as it came.
    last: Option<String>,
    received: Received,
}

impl Place {
    fn new(start: Start) -> Self {
        Self {
            start,
            last: None,
            received: Received::default(),
        }
    }

    /// The id after which the next request asks for events.
    fn after(&self) -> Option<&str> {
        match (&self.last, &self.start) {
            (Some(id), _) | (None, Start::After(id)) => Some(id),
            _ => None,
        }
    }

    /// Takes what came; what is to be told of it.
    fn take(&mut self, item: Item) -> Option<Notification> {
        match item {
            Item::Event(event) => {
                let is_repeat = event.id.as_ref().is_some_and(|id| {
                    self.last = Some(id.clone());
                    let counted = EventId::of(id);
                    counted.is_some_and(|id| self.received.event(id) == Arrival::Repeat)
                });
                (!is_repeat).then_some(Notification::Event(event))
            }
            Item::Cursor(id) => {
                if let Some(counted) = EventId::of(&id) {
                    self.received.cursor(counted);
                }
                self.last = Some(id);
                None
            }
            Item::Reset(reset) => {
                // What comes next may have any number, also one that came before.
                if !reset.is_expired() {
                    self.received.forget();
                }
                Some(Notification::Reset(reset))
            }
            Item::Gap(lost) => Some(Notification::Gap(lost)),
            Item::Presence(presence) => Some(Notification::Presence(presence)),
        }
    }
}

enum Ended {
    ByUs,
    ForGood(Failure),
    ForNow(String, Wait),
}

/// How long to wait before the next attempt.
#[derive(Debug, Clone, Copy)]
enum Wait {
    /// As long as the client's own jitter says.
    Jitter,
    /// That, and not less than this.
    AtLeast(Duration),
    /// As long as the server says: it spreads clients itself when it ends their streams.
    AsTold(Duration),
}

/// Sleeps unless `stop` is set meanwhile; whether it slept to the end.
fn sleep(wait: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + wait;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
    !stop.load(Ordering::Relaxed)
}
