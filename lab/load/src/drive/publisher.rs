//! One connection and the events sent on it, in order.
//!
//! Owns the socket. All events about an id go through the same publisher, so their order does not
//! change here.

use std::collections::VecDeque;
use std::io;

use rustix::io::Errno;

use super::Node;
use super::answer::{Reader, Receipts, ResponseEvent};
use super::channel::{Channel, Received};
use super::failures::FailureKind;
use super::payload::Event;
use super::report::Tally;
use super::request::Outgoing;
use crate::poll::{Interest, Poller};
use client::control_client;
use client::tls;

/// Unsent bytes at which a batch takes no more events: a few times what a socket takes at once.
/// Later events wait and are counted as late.
const UNSENT_MAX: usize = 256 * 1024;

/// Reads of one publisher before the next one gets its turn.
const READS_MAX: usize = 16;

/// Time limit for connecting.
const CONNECT_NANOS: u64 = 5_000_000_000;

/// Delay between two attempts to reconnect.
const RETRY_NANOS: u64 = 100_000_000;

/// Time without a connection after which a publisher gives up.
const AWAY_MAX_NANOS: u64 = 120_000_000_000;

/// Context that all publishers share.
pub(super) struct Shared<'a> {
    pub(super) poller: &'a Poller,
    pub(super) node: &'a Node,
    /// Whether publishers reconnect after they lose the server.
    pub(super) reconnects: bool,
    pub(super) tally: &'a mut Tally,
    /// Buffer for building bodies.
    pub(super) scratch: &'a mut Vec<u8>,
    /// Buffer for one read.
    pub(super) block: &'a mut [u8],
    /// Current time, in nanoseconds since the first event was due.
    pub(super) now: u64,
}

/// Publisher: one connection at a time, and the events that it sends.
#[derive(Debug)]
pub(super) struct Publisher {
    token: u64,
    /// Index of the node to connect to. The next one follows at each reconnect.
    pub(super) node: usize,
    /// Events that are due but not sent.
    waiting: VecDeque<Event>,
    /// Events that are sent but not answered.
    in_flight: VecDeque<InFlight>,
    link: Option<Connection>,
    /// The server is unreachable, or takes no more events.
    pub(super) is_lost: bool,
    /// Time of the next attempt to connect.
    retry_at: u64,
    /// Time since which the server is unreachable.
    away_since: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    event: Event,
    sent: u64,
}

/// A connection to the server.
#[derive(Debug)]
struct Connection {
    channel: Channel,
    opened: u64,
    connected: bool,
    watches_writable: bool,
    out: Outgoing,
    reader: Reader,
    /// The end of the batch is in `out`.
    finished: bool,
}

/// How a connection ended.
enum End {
    /// After an answer or between two requests.
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
            in_flight: VecDeque::new(),
            link: None,
            is_lost: false,
            retry_at: 0,
            away_since: None,
        }
    }

    /// Queues an event that is due.
    pub(super) fn queue(&mut self, event: Event) {
        self.waiting.push_back(event);
    }

    /// Drops the events that were not sent.
    pub(super) fn drop_unsent(&mut self) {
        self.waiting.clear();
    }

    /// Whether nothing is left to do. A batch is done when its answer is complete.
    pub(super) fn is_done(&self, is_batch: bool) -> bool {
        self.is_lost
            || (self.waiting.is_empty()
                && self.in_flight.is_empty()
                && (!is_batch || self.link.is_none()))
    }

    /// Sends as many waiting events as possible. With `last` no further event will be queued.
    pub(super) fn send(&mut self, last: bool, with: &mut Shared<'_>) {
        if self.is_lost {
            return;
        }
        if self.link.is_none() && with.now < self.retry_at {
            return;
        }
        if self.link.is_none()
            && (with.node.requests.is_batch() && !last || !self.waiting.is_empty())
        {
            self.open(with);
        }
        let Some(link) = &mut self.link else { return };
        let is_batch = with.node.requests.is_batch();
        while let Some(&event) = self.waiting.front() {
            let has_room = match is_batch {
                true => link.out.len() < UNSENT_MAX,
                false => self.in_flight.is_empty(),
            };
            if !has_room {
                break;
            }
            self.waiting.pop_front();
            with.node.requests.put(event, &mut link.out, with.scratch);
            with.tally.sent(event.due, with.now);
            self.in_flight.push_back(InFlight {
                event,
                sent: with.now,
            });
        }
        if is_batch && last && self.waiting.is_empty() && !link.finished {
            with.node.requests.finish(&mut link.out);
            link.finished = true;
        }
        if link.out.len() > 0 && link.connected {
            self.write(with);
        }
    }

    /// Handles readiness of the socket.
    pub(super) fn on_ready(&mut self, flags: Interest, with: &mut Shared<'_>) {
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

    /// Gives up on a connection attempt, or an answer, that takes too long; `patience` is the limit
    /// for answers in nanoseconds.
    pub(super) fn expire(&mut self, patience: u64, with: &mut Shared<'_>) {
        let Some(link) = &self.link else { return };
        if !link.connected && with.now - link.opened > CONNECT_NANOS {
            return self.end(End::Unreachable(io::ErrorKind::TimedOut.into()), with);
        }
        let waits_since = match self.in_flight.front() {
            Some(sent) => sent.sent,
            None if link.finished => with.tally.last_answer.max(link.opened),
            None => return,
        };
        if with.now.saturating_sub(waits_since) > patience {
            self.end(End::Failed(FailureKind::TimedOut), with);
        }
    }

    fn open(&mut self, with: &mut Shared<'_>) {
        let channel = match Channel::connect(with.node.address, with.node.tls.as_ref()) {
            Ok(channel) => channel,
            Err(error) => return self.end(End::Unreachable(error), with),
        };
        let interest = Interest::IN | Interest::OUT;
        if let Err(error) = with.poller.add(channel.socket(), self.token, interest) {
            return self.end(End::Unreachable(error), with);
        }
        let mut out = Outgoing::default();
        with.node.requests.begin(&mut out);
        self.link = Some(Connection {
            channel,
            opened: with.now,
            connected: false,
            watches_writable: true,
            out,
            reader: Reader::new(with.node.requests.is_batch()),
            finished: false,
        });
    }

    fn write(&mut self, with: &mut Shared<'_>) {
        let Some(link) = &mut self.link else { return };
        while link.out.len() > 0 {
            match link.channel.write(link.out.ready()) {
                Ok(count) => link.out.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The server may have sent an answer with the reason before it closed.
                Err(_) => return self.read(with),
            }
        }
        if link.channel.flush().is_err() {
            return self.read(with);
        }
        // During a handshake the next step is a read.
        let waits = link.channel.is_handshaking();
        let wants_writable = link.out.len() > 0 && !waits || link.channel.wants_send();
        if wants_writable != link.watches_writable {
            let mut interest = Interest::IN;
            interest.set(Interest::OUT, wants_writable);
            let socket = link.channel.socket();
            match with.poller.modify(socket, self.token, interest) {
                Ok(()) => link.watches_writable = wants_writable,
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
            let (tally, in_flight, now) = (&mut *with.tally, &mut self.in_flight, with.now);
            let mut closes = false;
            let read = link.reader.read(bytes, |event| {
                closes |= record_answer(event, in_flight, tally, now);
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

    /// Ends the connection after a TLS error. During the handshake no event has been sent yet.
    fn refuse(&mut self, was_handshaking: bool, error: &tls::Error, with: &mut Shared<'_>) {
        let sentence = tls::explain(with.node.url.authority(), error);
        let end = if was_handshaking {
            End::Unreachable(io::Error::other(sentence))
        } else {
            End::Failed(FailureKind::Malformed(sentence))
        };
        self.end(end, with);
    }

    /// Handles the end of the connection by the server.
    fn ended(&mut self, with: &mut Shared<'_>) {
        let Some(link) = &mut self.link else { return };
        if !link.connected {
            let error = Errno::CONNREFUSED.into();
            return self.end(End::Unreachable(error), with);
        }
        let (tally, in_flight, now) = (&mut *with.tally, &mut self.in_flight, with.now);
        link.reader.end(|event| {
            record_answer(event, in_flight, tally, now);
        });
        self.end(End::Fine, with);
    }

    /// Drops the connection and counts the events in flight as lost. A batch cannot be continued on
    /// another connection, so its publisher stops.
    fn end(&mut self, end: End, with: &mut Shared<'_>) {
        let is_batch = with.node.requests.is_batch();
        let finished = self.link.as_ref().is_some_and(|link| link.finished);
        let in_flight = self.in_flight.len() as u64;
        let left: Vec<Event> = self.in_flight.drain(..).map(|sent| sent.event).collect();
        if let Some(link) = self.link.take() {
            let _ = with.poller.remove(link.channel.socket());
        }
        if with.reconnects && !(finished && in_flight == 0) {
            return self.reconnect(&end, left, with);
        }
        if !matches!(end, End::Unreachable(_)) {
            left.iter().for_each(|&event| with.tally.unanswered(event));
        }
        match end {
            End::Fine => {
                with.tally.lost(in_flight, FailureKind::Lost);
                self.is_lost = is_batch && !(finished && in_flight == 0);
                self.report_unsent(in_flight, "the server ended the connection", with);
            }
            End::Failed(failure) => {
                with.tally.lost(in_flight, failure);
                self.is_lost = is_batch;
                self.report_unsent(in_flight, "the connection broke", with);
            }
            End::Unreachable(error) => {
                self.is_lost = true;
                // These events are only in the buffer of a connection that was never made.
                with.tally.unsend(in_flight);
                let failure = FailureKind::Unreachable(describe(&error));
                let unsent = in_flight + self.waiting.len() as u64;
                with.tally.failures.add(failure, unsent, "");
            }
        }
    }

    /// Prepares a reconnect. Events in flight are not sent again, as they may have been published.
    fn reconnect(&mut self, end: &End, left: Vec<Event>, with: &mut Shared<'_>) {
        self.retry_at = with.now + RETRY_NANOS;
        self.node += 1;
        match end {
            End::Unreachable(_) => {
                with.tally.unsend(left.len() as u64);
                let unsent = left.into_iter().rev();
                unsent.for_each(|event| self.waiting.push_front(event));
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

    /// Reports the waiting events of a stopped batch that has no events in flight.
    fn report_unsent(&self, in_flight: u64, why: &str, with: &mut Shared<'_>) {
        if self.is_lost && in_flight == 0 {
            let failure = FailureKind::Unreachable(why.to_owned());
            let waiting = self.waiting.len() as u64;
            with.tally.failures.add(failure, waiting, "");
        }
    }
}

/// Counts an answer; returns whether the connection must be closed.
fn record_answer(
    event: ResponseEvent<'_>,
    in_flight: &mut VecDeque<InFlight>,
    tally: &mut Tally,
    now: u64,
) -> bool {
    match event {
        // An empty line is a keepalive.
        ResponseEvent::Line(line) if line.trim_ascii().is_empty() => false,
        ResponseEvent::Line(line) => {
            // Ignore more answers than events: that is an error of the server.
            if let Some(sent) = in_flight.pop_front() {
                match Receipts::of_line(line) {
                    Ok(receipt) => tally.accepted(sent.event, now, receipt),
                    Err(error) => {
                        // The error may also mean that the outcome is unknown.
                        tally.unanswered(sent.event);
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
                if let Some(sent) = in_flight.pop_front() {
                    tally.accepted(sent.event, now, Receipts::of_body(body));
                }
                return closes;
            }
            // This refuses every event of a batch that has no answer yet.
            let refused = in_flight.len() as u64;
            in_flight
                .drain(..)
                .for_each(|sent| tally.unanswered(sent.event));
            let said = control_client::problem_detail(body);
            tally.refused(refused, now, FailureKind::Status(status), &said);
            closes
        }
    }
}

/// Describes an error of the system without its number.
fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there".to_owned(),
        io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => error.to_string(),
    }
}
