//! One connection and the events that go over it, in their order.
//!
//! Owns the socket. All events about an id go through the same publisher, so the driver itself
//! never changes the order of a target's events.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;

use super::answer::{Reader, Receipts, ResponseEvent};
use super::channel::{Channel, Received};
use super::failures::FailureKind;
use super::payload::Event;
use super::report::Tally;
use super::request::{Outgoing, Requests};
use crate::poll::{Interest, Poller};
use client::control_client;
use client::tls::{self, TlsClient};

/// Unsent bytes beyond which a batch takes no more events: what a socket takes at once, some times.
/// The others wait, and are late.
const UNSENT_MAX: usize = 256 * 1024;

/// Reads of one publisher before others have their turn.
const READS_MAX: usize = 16;

/// Time for a connection to be made.
const CONNECT_NANOS: u64 = 5_000_000_000;

/// Between two attempts to reach a server that is to come back.
const RETRY_NANOS: u64 = 100_000_000;

/// A server that cannot be reached for so long will not come back.
const AWAY_MAX_NANOS: u64 = 120_000_000_000;

/// What all publishers share.
pub(super) struct Shared<'a> {
    pub(super) poller: &'a Poller,
    pub(super) server: SocketAddr,
    pub(super) authority: &'a str,
    /// How TLS is made with it, if it has TLS.
    pub(super) tls: Option<&'a TlsClient>,
    pub(super) requests: &'a Requests,
    /// Whether a server that goes is waited for.
    pub(super) reconnects: bool,
    pub(super) tally: &'a mut Tally,
    /// Bodies are put together here.
    pub(super) scratch: &'a mut Vec<u8>,
    /// Bytes of one read.
    pub(super) block: &'a mut [u8],
    /// Nanoseconds since the first event was due.
    pub(super) now: u64,
}

/// One connection after another, and their events.
#[derive(Debug)]
pub(super) struct Publisher {
    token: u64,
    /// Which node it uses: its own at first, then one after the other.
    pub(super) node: usize,
    /// Events that are due and not sent.
    waiting: VecDeque<Event>,
    /// Events that are sent and not answered.
    flying: VecDeque<InFlight>,
    link: Option<Connection>,
    /// The server is not there, or will take no more.
    pub(super) is_lost: bool,
    /// Before then no other connection is tried.
    retry_at: u64,
    /// Since when the server cannot be reached.
    away_since: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    event: Event,
    sent: u64,
}

/// A connection.
#[derive(Debug)]
struct Connection {
    channel: Channel,
    opened: u64,
    connected: bool,
    watches_room: bool,
    out: Outgoing,
    reader: Reader,
    /// The last byte of a batch is written.
    finished: bool,
}

/// How a link ended.
enum End {
    /// As it should, or between two requests.
    Fine,
    Unreachable(io::Error),
    Failed(FailureKind),
}

impl Publisher {
    pub(super) fn new(token: u64) -> Self {
        Self {
            token,
            node: token as usize,
            waiting: VecDeque::new(),
            flying: VecDeque::new(),
            link: None,
            is_lost: false,
            retry_at: 0,
            away_since: None,
        }
    }

    /// Takes an event that is due.
    pub(super) fn take(&mut self, event: Event) {
        self.waiting.push_back(event);
    }

    /// Forgets the events that were not sent.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Whether nothing is under way. A batch is under way until its answer is whole.
    pub(super) fn is_done(&self, is_batch: bool) -> bool {
        self.is_lost
            || (self.waiting.is_empty()
                && self.flying.is_empty()
                && (!is_batch || self.link.is_none()))
    }

    /// Sends what can be sent. With `last` no other event will come.
    pub(super) fn send(&mut self, last: bool, with: &mut Shared<'_>) {
        if self.is_lost {
            return;
        }
        if self.link.is_none() && with.now < self.retry_at {
            return;
        }
        if self.link.is_none() && (with.requests.is_batch() && !last || !self.waiting.is_empty()) {
            self.open(with);
        }
        let Some(link) = &mut self.link else { return };
        let is_batch = with.requests.is_batch();
        while let Some(&event) = self.waiting.front() {
            let has_room = match is_batch {
                true => link.out.len() < UNSENT_MAX,
                false => self.flying.is_empty(),
            };
            if !has_room {
                break;
            }
            self.waiting.pop_front();
            with.requests.put(event, &mut link.out, with.scratch);
            with.tally.sent(event.due, with.now);
            self.flying.push_back(InFlight {
                event,
                sent: with.now,
            });
        }
        if is_batch && last && self.waiting.is_empty() && !link.finished {
            with.requests.finish(&mut link.out);
            link.finished = true;
        }
        if link.out.len() > 0 && link.connected {
            self.write(with);
        }
    }

    /// Acts on a socket's news.
    pub(super) fn hear(&mut self, flags: Interest, with: &mut Shared<'_>) {
        let Some(link) = &mut self.link else { return };
        if !link.connected {
            match link.channel.socket().take_error() {
                Ok(None) if flags.contains(Interest::OUT) => link.connected = true,
                Ok(None) => {}
                Ok(Some(error)) | Err(error) => return self.end(End::Unreachable(error), with),
            }
        }
        if flags.intersects(Interest::IN | Interest::HUP | Interest::ERR) {
            self.read(with);
        }
        if flags.contains(Interest::OUT) {
            self.write(with);
        }
    }

    /// Gives up what takes too long: connections, and answers that were waited for longer than
    /// `patience`.
    pub(super) fn expire(&mut self, patience: u64, with: &mut Shared<'_>) {
        let Some(link) = &self.link else { return };
        if !link.connected && with.now - link.opened > CONNECT_NANOS {
            return self.end(End::Unreachable(io::ErrorKind::TimedOut.into()), with);
        }
        let waits_since = match self.flying.front() {
            Some(flight) => flight.sent,
            None if link.finished => with.tally.last_answer.max(link.opened),
            None => return,
        };
        if with.now.saturating_sub(waits_since) > patience {
            self.end(End::Failed(FailureKind::TimedOut), with);
        }
    }

    fn open(&mut self, with: &mut Shared<'_>) {
        let channel = match Channel::connect(with.server, with.tls) {
            Ok(channel) => channel,
            Err(error) => return self.end(End::Unreachable(error), with),
        };
        let interest = Interest::IN | Interest::OUT;
        if let Err(error) = with.poller.add(channel.socket(), self.token, interest) {
            return self.end(End::Unreachable(error), with);
        }
        let mut out = Outgoing::default();
        with.requests.begin(&mut out);
        self.link = Some(Connection {
            channel,
            opened: with.now,
            connected: false,
            watches_room: true,
            out,
            reader: Reader::new(with.requests.is_batch()),
            finished: false,
        });
    }

    fn write(&mut self, with: &mut Shared<'_>) {
        let Some(link) = &mut self.link else { return };
        while link.out.len() > 0 {
            match link.channel.write(link.out.ready()) {
                Ok(count) => link.out.took(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What the server answered before it went says why.
                Err(_) => return self.read(with),
            }
        }
        if link.channel.flush().is_err() {
            return self.read(with);
        }
        // The end of a handshake is something to read.
        let waits = link.channel.is_handshaking();
        let wants_room = link.out.len() > 0 && !waits || link.channel.wants_send();
        if wants_room != link.watches_room {
            let room = if wants_room {
                Interest::OUT
            } else {
                Interest::empty()
            };
            let watched =
                with.poller
                    .modify(link.channel.socket(), self.token, Interest::IN | room);
            match watched {
                Ok(()) => link.watches_room = wants_room,
                Err(_) => self.end(End::Failed(FailureKind::Lost), with),
            }
        }
    }

    fn read(&mut self, with: &mut Shared<'_>) {
        for _ in 0..READS_MAX {
            let Some(link) = &mut self.link else { return };
            let was_handshaking = link.channel.is_handshaking();
            let (bytes, has_more) = match link.channel.read(with.block) {
                Received::Bytes(bytes, has_more) => (bytes, has_more),
                Received::Blocked => return,
                Received::Ended => return self.ended(with),
                Received::Refused(error) => return self.refuse(was_handshaking, &error, with),
            };
            let (tally, flying, now) = (&mut *with.tally, &mut self.flying, with.now);
            let mut closes = false;
            let read = link.reader.read(bytes, |news| {
                closes |= hear(news, flying, tally, now);
            });
            if let Err(malformed) = read {
                let failure = FailureKind::Malformed(malformed.to_string());
                return self.end(End::Failed(failure), with);
            }
            if closes {
                return self.end(End::Fine, with);
            }
            if was_handshaking {
                self.write(with);
            }
            if !has_more {
                return;
            }
        }
    }

    /// The server's TLS cannot be used. Before the end of the handshake nothing was sent.
    fn refuse(&mut self, was_handshaking: bool, error: &tls::Error, with: &mut Shared<'_>) {
        let sentence = tls::explain(with.authority, error);
        let end = if was_handshaking {
            End::Unreachable(io::Error::other(sentence))
        } else {
            End::Failed(FailureKind::Malformed(sentence))
        };
        self.end(end, with);
    }

    /// The server has ended the connection, or broken it.
    fn ended(&mut self, with: &mut Shared<'_>) {
        let Some(link) = &mut self.link else { return };
        if !link.connected {
            let error = Errno::CONNREFUSED.into();
            return self.end(End::Unreachable(error), with);
        }
        let (tally, flying, now) = (&mut *with.tally, &mut self.flying, with.now);
        link.reader.end(|news| {
            hear(news, flying, tally, now);
        });
        self.end(End::Fine, with);
    }

    /// Drops the link. What flies is lost; a batch that has not ended by itself takes no more.
    fn end(&mut self, end: End, with: &mut Shared<'_>) {
        let is_batch = with.requests.is_batch();
        let finished = self.link.as_ref().is_some_and(|link| link.finished);
        let flying = self.flying.len() as u64;
        let left: Vec<Event> = self.flying.drain(..).map(|flight| flight.event).collect();
        if let Some(link) = self.link.take() {
            let _ = with.poller.remove(link.channel.socket());
        }
        if with.reconnects && !(finished && flying == 0) {
            return self.reconnect(&end, left, with);
        }
        if !matches!(end, End::Unreachable(_)) {
            left.iter().for_each(|&event| with.tally.unanswered(event));
        }
        match end {
            End::Fine => {
                with.tally.lost(flying, FailureKind::Lost);
                self.is_lost = is_batch && !(finished && flying == 0);
                self.tell_unsent(flying, "the server ended the connection", with);
            }
            End::Failed(failure) => {
                with.tally.lost(flying, failure);
                self.is_lost = is_batch;
                self.tell_unsent(flying, "the connection broke", with);
            }
            End::Unreachable(error) => {
                self.is_lost = true;
                // What was put into the buffer of a connection that never was is unsent.
                with.tally.unsend(flying);
                let failure = FailureKind::Unreachable(words(&error));
                with.tally
                    .failures
                    .add(failure, flying + self.waiting.len() as u64, "");
            }
        }
    }

    /// Waits for the server to come back. What flew has no answer and is not sent again, as it may
    /// have been published.
    fn reconnect(&mut self, end: &End, left: Vec<Event>, with: &mut Shared<'_>) {
        self.retry_at = with.now + RETRY_NANOS;
        self.node += 1;
        match end {
            End::Unreachable(_) => {
                with.tally.unsend(left.len() as u64);
                left.into_iter()
                    .rev()
                    .for_each(|event| self.waiting.push_front(event));
                let since = *self.away_since.get_or_insert(with.now);
                if with.now - since > AWAY_MAX_NANOS {
                    self.is_lost = true;
                    let failure = FailureKind::Unreachable("it did not come back".to_owned());
                    let waiting = self.waiting.len() as u64;
                    with.tally.failures.add(failure, waiting, "");
                }
            }
            End::Fine | End::Failed(_) => {
                self.away_since = None;
                with.tally.reconnects += 1;
                with.tally.events.lost += left.len() as u64;
                left.iter().for_each(|&event| with.tally.unanswered(event));
            }
        }
    }

    /// Says why a batch that ended with every answer given sends the rest no more.
    fn tell_unsent(&self, flying: u64, why: &str, with: &mut Shared<'_>) {
        if self.is_lost && flying == 0 {
            let failure = FailureKind::Unreachable(why.to_owned());
            let waiting = self.waiting.len() as u64;
            with.tally.failures.add(failure, waiting, "");
        }
    }
}

/// Counts an answer; whether the connection has to end with it.
fn hear(
    news: ResponseEvent<'_>,
    flying: &mut VecDeque<InFlight>,
    tally: &mut Tally,
    now: u64,
) -> bool {
    match news {
        // An empty line keeps a connection alive.
        ResponseEvent::Line(line) if line.trim_ascii().is_empty() => false,
        ResponseEvent::Line(line) => {
            // More answers than events would be the server's mistake; each event has one.
            if let Some(flight) = flying.pop_front() {
                match Receipts::of_line(line) {
                    Ok(receipt) => tally.accepted(flight.event, now, receipt),
                    Err(error) => {
                        // A refusal may also say that the outcome is not known.
                        tally.unanswered(flight.event);
                        tally.refused(1, now, FailureKind::Line(error), "");
                    }
                }
            }
            false
        }
        ResponseEvent::LinesEnd => true,
        ResponseEvent::Whole {
            status,
            body,
            closes,
        } => {
            if (200..300).contains(&status) {
                if let Some(flight) = flying.pop_front() {
                    tally.accepted(flight.event, now, Receipts::of_body(body));
                }
                return closes;
            }
            // Of a batch, all that was sent is refused at once.
            let refused = flying.len() as u64;
            flying
                .drain(..)
                .for_each(|flight| tally.unanswered(flight.event));
            let said = control_client::problem_detail(body);
            tally.refused(refused, now, FailureKind::Status(status), &said);
            closes
        }
    }
}

/// An error of the system without its number.
fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there".to_owned(),
        io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => error.to_string(),
    }
}
