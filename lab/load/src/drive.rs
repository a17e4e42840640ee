//! Open-loop load generator: publishes events at a given rate, however fast the server answers.
//! Latency is measured from an event's due time, also when it is sent late.
//!
//! Modules in the order in which an event passes them: `schedule` gives the due time, `targets` the
//! subject, `payload` the content; `request` encodes it, `publisher` sends it on a `channel` and
//! reads the `answer`, `report` and `failures` count. Everything runs on one thread.

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
pub use report::{Events, LATE_NANOS, Progress, Rate, Report};
pub use request::Endpoint;
pub use schedule::Pace;
pub use targets::TargetDistribution;

use crate::poll::{EventBatch, Poller};
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

/// Shortest time between two rounds of sends: events that become due within it are sent together.
/// This adds half of it to the mean latency and saves most system calls.
const TURN_NANOS: u64 = 250_000;

/// Interval of progress reports.
const REPORT_NANOS: u64 = 1_000_000_000;

/// Time after which an answer counts as lost.
const PATIENCE_NANOS: u64 = 35_000_000_000;

/// The same after an interrupt.
const PATIENCE_AFTER_STOP_NANOS: u64 = 2_000_000_000;

/// Most events that wait because the server is too slow. Further ones are created later; their
/// latency is still measured from their due time.
const WAITING_MAX: u64 = 1 << 20;

/// Size of the read buffer.
const BLOCK_BYTES: usize = 64 * 1024;

/// Most connections.
const CONNECTIONS_MAX: u32 = 10_000;

/// What to publish, where and how fast.
#[derive(Debug, Clone)]
pub struct Options {
    /// URL of the server, `http://host:port`: the control listener, unless `way` is
    /// [`Endpoint::Url`].
    pub url: String,
    /// URLs of other nodes of the same service. Connections are divided among all nodes; with
    /// `reconnects`, a lost connection is made again to the next node.
    pub others: Vec<String>,
    /// Certificate authorities trusted for `https`.
    pub authorities: Authorities,
    /// Token of the control listener.
    pub token: Option<String>,
    /// How events are published.
    pub way: Endpoint,
    /// Number of connections, among which ids are divided. One is enough for a batch; with one
    /// request for each event it is the number of requests that can be under way.
    pub connections: u32,
    /// Rate at which events become due.
    pub pace: Pace,
    /// Time after which to stop. Without it and `count` the drive never stops by itself.
    pub duration: Option<Duration>,
    /// Number of events after which to stop.
    pub count: Option<u64>,
    /// Distribution of the subjects.
    pub draw: TargetDistribution,
    /// Seed of the subjects.
    pub seed: u64,
    /// Payload of the events.
    pub payload: Payload,
    /// Whether to reconnect when the server is lost. Events without an answer are not sent again.
    pub reconnects: bool,
    /// File to write with a record of the events published for each subject, which `encke-lab
    /// flood` compares with what clients received.
    pub log: Option<PathBuf>,
}

impl Options {
    /// Checks the options; uses neither files nor the network.
    ///
    /// # Errors
    ///
    /// If an option is out of range, or no event would be published.
    pub fn check(&self) -> Outcome<()> {
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Err(Failure::new(format!(
                "the number of connections cannot be {}: give one from 1 to {CONNECTIONS_MAX}",
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

/// Publishes until all events are answered, the server is lost, or `interrupt` asks to stop. Calls
/// `observe` each second with the progress.
///
/// # Errors
///
/// If the options are invalid, a host name does not resolve, the graph file cannot be read, or the
/// log cannot be written. Failures of single events are in the report.
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

/// Source of the events.
#[derive(Debug)]
struct Source {
    schedule: Schedule,
    targets: Targets,
    /// Number of the last event about each id.
    numbers: Vec<u32>,
    made: u64,
    /// Time at which it was stopped early.
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
    /// Due time of the first event, on the monotonic clock.
    began: u64,
    cpu_before: u64,
    next_report: u64,
    interrupted: bool,
}

/// A server, and the encoder of requests to it.
struct Node {
    address: SocketAddr,
    url: Url,
    tls: Option<TlsClient>,
    requests: Requests,
}

impl Drive {
    fn new(options: &Options) -> Outcome<Self> {
        options.check()?;
        let server = |url: &String| {
            let url = Url::parse(url)?;
            let tls = || TlsClient::new(&options.authorities, url.host(), Resumption::Tickets);
            Ok((url.resolve()?, url.is_secure().then(tls).transpose()?, url))
        };
        let servers: Vec<_> = options.urls().map(server).collect::<Outcome<_>>()?;
        let targets = Targets::new(&options.draw, options.seed)?;
        let source = Source {
            schedule: options.schedule()?,
            numbers: vec![0; targets.max_id() as usize + 1],
            targets,
            made: 0,
            stopped: None,
        };
        let poller = Poller::new().context("making an epoll")?;
        // The clocks are read last, so that the setup is not counted.
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
            nodes: servers
                .into_iter()
                .map(|(address, tls, url)| Node {
                    address,
                    tls,
                    requests: Requests::new(&options.way, &url, token, &options.payload, realtime),
                    url,
                })
                .collect(),
            reconnects: options.reconnects,
            tally,
            scratch: Vec::new(),
            block: vec![0; BLOCK_BYTES],
            began,
            cpu_before,
            next_report: REPORT_NANOS,
            interrupted: false,
        })
    }

    fn run(&mut self, interrupt: &Interrupt, observe: &mut impl FnMut(&Progress)) -> Outcome<()> {
        let mut batch = EventBatch::default();
        loop {
            let now = self.now();
            self.check_stop(interrupt, now);
            self.make(now);
            let last = self.source.is_dry();
            for index in 0..self.publishers.len() {
                self.with_publisher(index, now, |publisher, with| publisher.send(last, with));
            }
            if now >= self.next_report {
                self.report_progress(now, observe);
            }
            let is_batch = self.nodes[0].requests.is_batch();
            let mut publishers = self.publishers.iter();
            if self.source.is_dry() && publishers.all(|publisher| publisher.is_done(is_batch)) {
                return Ok(());
            }
            self.poller
                .wait(&mut batch, Some(self.pause(now)))
                .context("waiting for sockets")?;
            for (token, flags) in batch.iter() {
                let now = self.now();
                self.with_publisher(token as usize, now, |publisher, with| {
                    publisher.on_ready(flags, with)
                });
            }
        }
    }

    /// Stops the source after an interrupt or when the server is lost.
    fn check_stop(&mut self, interrupt: &Interrupt, now: u64) {
        if self.source.stopped.is_some() {
            return;
        }
        self.interrupted = interrupt.asked();
        if self.interrupted || self.publishers.iter().any(|publisher| publisher.is_lost) {
            self.source.stopped = Some(now);
            self.publishers.iter_mut().for_each(Publisher::drop_unsent);
        }
    }

    /// Hands the events that are due to their publishers.
    fn make(&mut self, now: u64) {
        let room = WAITING_MAX.saturating_sub(self.source.made - self.tally.events.sent);
        let publishers = self.publishers.len();
        for event in self.source.due(now).take(room as usize) {
            self.publishers[event.id as usize % publishers].queue(event);
        }
    }

    /// Reports the progress and expires what takes too long.
    fn report_progress(&mut self, now: u64, observe: &mut impl FnMut(&Progress)) {
        self.count_due(now);
        observe(&self.tally.progress(now, self.source.schedule.length()));
        self.next_report = now - now % REPORT_NANOS + REPORT_NANOS;
        let patience = match self.source.stopped {
            Some(_) => PATIENCE_AFTER_STOP_NANOS,
            None => PATIENCE_NANOS,
        };
        for index in 0..self.publishers.len() {
            self.with_publisher(index, now, |publisher, with| {
                publisher.expire(patience, with)
            });
        }
    }

    /// Time until the next event or report is due.
    fn pause(&self, now: u64) -> Duration {
        let next = match self.source.is_dry() {
            true => u64::MAX,
            false => {
                let due = self.source.schedule.due(self.source.made);
                due.max(now + TURN_NANOS)
            }
        };
        // Wake often, as an interrupt does not end the wait.
        let until = next.min(self.next_report).min(now + REPORT_NANOS / 10);
        Duration::from_nanos(until - now)
    }

    fn with_publisher(
        &mut self,
        index: usize,
        now: u64,
        act: impl FnOnce(&mut Publisher, &mut Shared<'_>),
    ) {
        // The node is chosen at each call: a publisher that loses its node gets the next one at its
        // next call.
        let node = &self.nodes[self.publishers[index].node % self.nodes.len()];
        let mut shared = Shared {
            poller: &self.poller,
            node,
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
            failures: self.tally.failures.summaries(&options.url),
        }
    }
}

impl Source {
    /// Whether it makes no further event.
    fn is_dry(&self) -> bool {
        self.stopped.is_some() || self.made == self.schedule.length()
    }

    /// Makes the events that have become due by `now`.
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
    fn the_events_do_not_depend_on_when_they_are_polled() {
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
