//! Events published at a rate, whatever the server does: an open loop. A late send is still timed
//! from when it was due.
//!
//! In the order in which an event passes through: `schedule` says when it is due, `targets` whom it
//! is about, `payload` what it says, `request` how that is spelled, `publisher` sends it over a
//! `channel` and hears the `answer`, `report` counts; `failures` says what went wrong. One thread
//! does it all.

mod answer;
mod channel;
mod publisher;
mod payload;
mod report;
mod request;
mod schedule;
mod targets;
mod failures;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use answer::Receipts;
pub use failures::FailureSummary;
pub use payload::{Payload, Template};
pub use report::{Events, LATE_NANOS, Progress, Rate, Report, Times};
pub use request::Endpoint;
pub use schedule::Pace;
pub use targets::TargetDistribution;

use crate::poll::{EventBatch, Poller, Readiness};
use crate::published::Published;
use client::http::Url;
use client::tls::{Authorities, Resumption, TlsClient};
use machine::clock;
use machine::failure::{Context, Failure, Outcome};
use machine::interrupt::Interrupt;
use payload::Event;
use publisher::{Publisher, Shared};
use report::{Log, Tally};
use request::Requests;
use schedule::Schedule;
use targets::Targets;

/// Between two turns when events are due all the time: those of so long leave together. Adds half
/// of it to their latency, and saves most of the system calls.
const TURN_NANOS: u64 = 250_000;

/// Between two looks at the progress.
const WORD_NANOS: u64 = 1_000_000_000;

/// An answer that takes longer will not come.
const PATIENCE_NANOS: u64 = 35_000_000_000;

/// How long answers are waited for after an interrupt.
const FAREWELL_NANOS: u64 = 2_000_000_000;

/// Events that are due and wait because the server takes them no faster. Beyond, they are made
/// later; they are timed from when they were due all the same.
const WAITING_MAX: u64 = 1 << 20;

/// Bytes of one read.
const BLOCK_BYTES: usize = 64 * 1024;

/// The most connections.
const CONNECTIONS_MAX: u32 = 10_000;

/// What to publish, where and how fast.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server: `http://host:port`. The control listener unless `way` has paths of its own.
    pub url: String,
    /// Other nodes of the same service: connections are divided among all, and one that is lost is
    /// made anew with the next node, if `reconnects` says so.
    pub others: Vec<String>,
    /// Authorities that the certificates of `https` servers must be issued by.
    pub authorities: Authorities,
    /// Token of the control listener.
    pub token: Option<String>,
    /// How events are sent.
    pub way: Endpoint,
    /// Connections, among which ids are divided. One is enough for a batch; requests that wait for
    /// their answers need as many as there are to be under way.
    pub connections: u32,
    /// How often an event is due.
    pub pace: Pace,
    /// When to stop; never, if there is no `count` either.
    pub duration: Option<Duration>,
    /// After how many events to stop.
    pub count: Option<u64>,
    /// Whom events are about.
    pub draw: TargetDistribution,
    /// Another seed draws other targets.
    pub seed: u64,
    /// What they say.
    pub payload: Payload,
    /// Whether a server that goes is waited for. What has no answer then is not sent again.
    pub reconnects: bool,
    /// File for what was published, by subject: what receivers are owed.
    pub log: Option<PathBuf>,
}

impl Options {
    /// Says what is wrong with them, without a look at files or the network.
    ///
    /// # Errors
    ///
    /// When an option is out of its range, or no event would be published.
    pub fn check(&self) -> Outcome<()> {
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err(Failure::new(format!(
                "{} connections are none or too many: give from 1 to {CONNECTIONS_MAX}",
                self.connections
            )));
        }
        for url in self.urls() {
            Url::parse(url)?;
        }
        self.schedule()?;
        self.draw.check()
    }

    fn urls(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.url).chain(&self.others)
    }

    fn schedule(&self) -> Outcome<Schedule> {
        Schedule::new(self.pace, self.duration, self.count)
    }
}

/// Publishes until all events have their answers, the server is lost, or `interrupt` asks for the
/// end. Tells `observe` each second how far it is. What goes wrong with events is in the report;
/// only what keeps it from starting is a failure.
///
/// # Errors
///
/// When the options are invalid, the host has no address, or the graph file cannot be read.
/// Failures of events are in the report.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    mut observe: impl FnMut(&Progress),
) -> Outcome<Report> {
    let mut drive = Drive::new(options)?;
    drive.run(interrupt, &mut observe)?;
    if let (Some(path), Some(log)) = (&options.log, &drive.tally.published) {
        log.published.write(path)?;
    }
    Ok(drive.report(options))
}

/// Events as they become due.
#[derive(Debug)]
struct Source {
    schedule: Schedule,
    targets: Targets,
    /// The last number of each id.
    numbers: Vec<u32>,
    made: u64,
    /// When it was told to make no more.
    stopped: Option<u64>,
}

struct Drive {
    source: Source,
    publishers: Vec<Publisher>,
    poller: Poller,
    nodes: Vec<Node>,
    reconnects: bool,
    tally: Tally,
    scratch: Vec<u8>,
    block: Vec<u8>,
    /// When the first event is due, by the monotonic clock.
    began: u64,
    cpu_before: u64,
    next_word: u64,
    interrupted: bool,
}

/// A server to which events go, and how they are spelled for it.
struct Node {
    address: SocketAddr,
    authority: String,
    tls: Option<TlsClient>,
    requests: Requests,
}

impl Drive {
    fn new(options: &Options) -> Outcome<Self> {
        options.check()?;
        let mut nodes = Vec::new();
        for url in options.urls() {
            let url = Url::parse(url)?;
            let tls = || TlsClient::new(&options.authorities, url.host(), Resumption::Tickets);
            let tls = url.is_secure().then(tls).transpose()?;
            nodes.push((url.resolve()?, tls, url));
        }
        let targets = Targets::new(&options.draw, options.seed)?;
        let source = Source {
            schedule: options.schedule()?,
            numbers: vec![0; targets.max_id() as usize + 1],
            targets,
            made: 0,
            stopped: None,
        };
        let poller = Poller::new().context("making an epoll")?;
        // Read last and together: what is read from now on is driving.
        let (cpu_before, realtime, began) = (
            clock::thread_cpu_nanos(),
            clock::realtime_nanos(),
            clock::monotonic_nanos(),
        );
        let token = options.token.as_deref();
        let mut tally = Tally::new();
        tally.published = options.log.is_some().then(|| Log {
            published: Published::default(),
            began: realtime,
        });
        Ok(Self {
            source,
            publishers: (0..options.connections.into())
                .map(Publisher::new)
                .collect(),
            poller,
            nodes: nodes
                .into_iter()
                .map(|(address, tls, url)| Node {
                    address,
                    authority: url.authority().to_owned(),
                    tls,
                    requests: Requests::new(&options.way, &url, token, &options.payload, realtime),
                })
                .collect(),
            reconnects: options.reconnects,
            tally,
            scratch: Vec::new(),
            block: vec![0; BLOCK_BYTES],
            began,
            cpu_before,
            next_word: WORD_NANOS,
            interrupted: false,
        })
    }

    fn run(&mut self, interrupt: &Interrupt, observe: &mut impl FnMut(&Progress)) -> Outcome<()> {
        let mut batch = EventBatch::new();
        loop {
            let now = self.now();
            self.heed(interrupt, now);
            self.make(now);
            let last = self.source.is_dry();
            for index in 0..self.publishers.len() {
                self.with_publisher(index, now, |publisher, with| publisher.send(last, with));
            }
            if now >= self.next_word {
                self.look(now, observe);
            }
            let is_batch = self.nodes[0].requests.is_batch();
            if self.source.is_dry()
                && self
                    .publishers
                    .iter()
                    .all(|publisher| publisher.is_done(is_batch))
            {
                return Ok(());
            }
            self.poller
                .wait(&mut batch, Some(self.pause(now)))
                .context("waiting for sockets")?;
            for Readiness { token, flags } in batch.iter() {
                let now = self.now();
                self.with_publisher(token as usize, now, |publisher, with| {
                    publisher.hear(flags, with)
                });
            }
        }
    }

    /// Makes no more events once somebody asks for the end, or the server is lost.
    fn heed(&mut self, interrupt: &Interrupt, now: u64) {
        if self.source.stopped.is_some() {
            return;
        }
        self.interrupted = interrupt.asked();
        if self.interrupted || self.publishers.iter().any(|publisher| publisher.is_lost) {
            self.source.stopped = Some(now);
            self.publishers.iter_mut().for_each(Publisher::forget);
        }
    }

    /// Gives the events that are due to their publishers.
    fn make(&mut self, now: u64) {
        let room = WAITING_MAX.saturating_sub(self.source.made - self.tally.events.sent);
        let publishers = self.publishers.len();
        for event in self.source.due(now).take(room as usize) {
            self.publishers[event.id as usize % publishers].take(event);
        }
    }

    /// Tells how far it is, and gives up what takes too long.
    fn look(&mut self, now: u64, observe: &mut impl FnMut(&Progress)) {
        self.count_due(now);
        observe(&self.tally.progress(now, self.source.schedule.length()));
        self.next_word = now - now % WORD_NANOS + WORD_NANOS;
        let patience = match self.source.stopped {
            Some(_) => FAREWELL_NANOS,
            None => PATIENCE_NANOS,
        };
        for index in 0..self.publishers.len() {
            self.with_publisher(index, now, |publisher, with| {
                publisher.expire(patience, with)
            });
        }
    }

    /// Until when there is nothing to do but to listen.
    fn pause(&self, now: u64) -> Duration {
        let next = match self.source.is_dry() {
            true => u64::MAX,
            false => {
                let due = self.source.schedule.due(self.source.made);
                if due > now + TURN_NANOS {
                    due
                } else {
                    now + TURN_NANOS
                }
            }
        };
        // An interrupt ends no wait by itself.
        let until = next.min(self.next_word).min(now + WORD_NANOS / 10);
        Duration::from_nanos(until - now)
    }

    fn with_publisher(
        &mut self,
        index: usize,
        now: u64,
        act: impl FnOnce(&mut Publisher, &mut Shared<'_>),
    ) {
        // A publisher that loses its node keeps to it until it is called again.
        let node = &self.nodes[self.publishers[index].node % self.nodes.len()];
        let mut shared = Shared {
            poller: &self.poller,
            server: node.address,
            authority: &node.authority,
            tls: node.tls.as_ref(),
            requests: &node.requests,
            reconnects: self.reconnects,
            tally: &mut self.tally,
            scratch: &mut self.scratch,
            block: &mut self.block,
            now,
        };
        act(&mut self.publishers[index], &mut shared);
    }

    fn count_due(&mut self, now: u64) {
        let at = self.source.stopped.unwrap_or(now);
        let events = &mut self.tally.events;
        events.due = self.source.schedule.due_by(at).max(events.sent);
        events.unsent = events.due - events.sent;
    }

    fn now(&self) -> u64 {
        clock::monotonic_nanos() - self.began
    }

    fn report(mut self, options: &Options) -> Report {
        self.count_due(self.now());
        let end = self
            .source
            .stopped
            .unwrap_or_else(|| self.source.schedule.span());
        let seconds = end.max(self.tally.last_answer).max(1) as f64 / 1e9;
        Report {
            url: options.url.clone(),
            seconds,
            interrupted: self.interrupted,
            events: self.tally.events,
            reconnects: self.tally.reconnects,
            reconnecting: options.reconnects,
            rate: Rate {
                asked: self.source.schedule.rate(),
                reached: self.tally.events.accepted as f64 / seconds,
                late: self.tally.late,
                lateness: self.tally.lateness(),
            },
            receipts: self.tally.receipts,
            latency: self.tally.latency(),
            longest_silence_seconds: self.tally.longest_silence as f64 / 1e9,
            cpu_seconds: (clock::thread_cpu_nanos() - self.cpu_before) as f64 / 1e9,
            failures: self.tally.failures.told(&options.url),
        }
    }
}

impl Source {
    /// Whether it makes no more.
    fn is_dry(&self) -> bool {
        self.stopped.is_some() || self.made == self.schedule.length()
    }

    /// The events that are due at `now` and were not made yet.
    fn due(&mut self, now: u64) -> impl Iterator<Item = Event> {
        let until = match self.stopped {
            Some(_) => self.made,
            None => self.schedule.due_by(now),
        };
        std::iter::from_fn(move || {
            if self.made >= until {
                return None;
            }
            let id = self.targets.next();
            let number = &mut self.numbers[id as usize];
            *number += 1;
            let event = Event {
                id,
                number: *number,
                due: self.schedule.due(self.made),
            };
            self.made += 1;
            Some(event)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn whatever_the_turns_the_same_events_are_due() {
        let made = |turns: &[u64]| {
            let draw = TargetDistribution::Zipf {
                max_id: 10,
                exponent: 1.0,
            };
            let second = Some(Duration::from_secs(1));
            let mut source = Source {
                schedule: Schedule::new(Pace::Rate(1000.0), second, None).unwrap(),
                targets: Targets::new(&draw, 5).unwrap(),
                numbers: vec![0; 11],
                made: 0,
                stopped: None,
            };
            let mut events = Vec::new();
            for &now in turns {
                events.extend(source.due(now));
                assert_eq!(events.len() as u64, source.schedule.due_by(now));
                assert!(events.iter().all(|event| event.due <= now));
            }
            assert!(source.is_dry());
            events
        };
        let each: Vec<u64> = (0..2_000).map(|half| half * 500_000).collect();
        let events = made(&each);
        assert_eq!(events.len(), 1000);
        assert_eq!(made(&[0, 123_456_789, 2_000_000_000]), events);
        let mut last = BTreeMap::new();
        for event in events {
            let before = last.insert(event.id, event.number).unwrap_or(0);
            assert_eq!(event.number, before + 1);
        }
    }
}
