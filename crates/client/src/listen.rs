//! A subscriber: connects, decodes events, and reconnects with jitter when the stream breaks.
//!
//! Owns the cursor: after a reconnect the subscriber requests what it has missed, and reports no
//! event twice.

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
use crate::decode::Transport;
use crate::decode::event_id::EventId;
use crate::http::Url;
use crate::received::{Arrival, Received};
use crate::tls::Authorities;
use machine::failure::{Failure, Outcome};

use event::Item;
pub use event::{Event, Presence, Reset};
use request::Request;

/// Interval at which a wait checks whether it should stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Time without input after which the connection is taken for dead: three heartbeats of the
/// longest usual interval.
const SILENCE_MAX: Duration = Duration::from_secs(180);

/// Options of [`listen`].
#[derive(Debug, Clone)]
pub struct Options {
    /// URL of the public listener.
    pub url: String,
    /// Authorities that are trusted to issue the certificate of an `https` server.
    pub authorities: Authorities,
    /// Ids to log in as. If empty, the server takes those of the credential.
    pub ids: Vec<String>,
    /// Token or ticket, if the server requires one.
    pub credential: Option<Credential>,
    /// Transport of the events, not [`Transport::Raw`].
    pub transport: Transport,
    /// Where in the stream to start.
    pub start: Start,
    /// Whether to request events with their metadata (`format=json`), not only with their payload.
    pub whole: bool,
    /// Whether to request presence: which of the subscribed ids are online.
    pub presence: bool,
    /// Seed of the jitter.
    pub seed: u64,
}

/// Where in the stream a subscriber starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With the next event that is published.
    Live,
    /// After the event with this id.
    After(String),
    /// With the oldest event in the server's history.
    Earliest,
    /// With this many last events of each subject.
    Rewind(u8),
}

/// Credential of a client. Its `Debug` form hides the secret.
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

/// Report of a subscriber to its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// A stream is open. It continues after this event id, if one was sent.
    Connected(Option<String>),
    /// An event that was not reported before.
    Event(Event),
    /// Events may be missing from here on.
    Reset(Reset),
    /// The server dropped this many events because the client read too slowly.
    Gap(u64),
    /// Which ids are online.
    Presence(Presence),
    /// The stream broke for this reason. The next attempt begins after this time.
    Lost(String, Duration),
}

/// Subscribes, reconnecting as needed, until `stop` is set, `tell` returns
/// [`ControlFlow::Break`], or an attempt fails in a way that a retry cannot change.
///
/// # Errors
///
/// When the URL is invalid, the authorities cannot be used, the server's certificate is not
/// trusted, or the server refuses the request. A stream that breaks is not an error but a
/// [`Notification::Lost`].
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

/// State of a subscriber over all its connections.
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

    /// Reports `items` to the caller, without events that were reported before.
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

/// Cursor of a subscriber.
struct Place {
    /// Counts until an id is known.
    start: Start,
    /// The last event id.
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

    /// Returns the id after which the next request continues, if there is one.
    fn after(&self) -> Option<&str> {
        match (&self.last, &self.start) {
            (Some(id), _) | (None, Start::After(id)) => Some(id),
            _ => None,
        }
    }

    /// Advances the cursor by `item`, and returns what to report of it.
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
                // The next events may have any number, also one that was seen before.
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

/// Why a connection ended, and what follows.
enum Ended {
    /// The caller wants to stop.
    ByUs,
    /// A retry cannot help.
    ForGood(Failure),
    /// Retry. With the reason.
    ForNow(String, Wait),
}

/// Delay before the next attempt.
#[derive(Debug, Clone, Copy)]
enum Wait {
    /// The backoff's delay.
    Jitter,
    /// The backoff's delay, but at least this.
    AtLeast(Duration),
    /// The delay that the server sent: it spreads the clients itself when it drains.
    AsTold(Duration),
}

/// Sleeps for `wait`. Returns false if `stop` was set before or meanwhile.
fn sleep(wait: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + wait;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        thread::sleep(left.min(STOP_CHECK_INTERVAL));
    }
    !stop.load(Ordering::Relaxed)
}
