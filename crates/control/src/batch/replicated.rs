//! Many events on one request, through the log.
//!
//! Owns how lines are put together for the log. Must never let a line overtake another, nor hold
//! more of a batch than a few chunks.

/// A receipt for each line.
pub(super) mod each;
/// One receipt for all lines.
pub(super) mod summary;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use aws_lc_rs::digest::{Context as Hashing, SHA256};
use history::Reach;
use replication::{Append, AppendError, Applied, Command, Position, Wait};

use super::lines::Lines;
use crate::api::Api;
use crate::limits::{CHUNK_LINES_FACTOR, CHUNKS_MAX};
use crate::replicated::{Appending, append, command};
use crate::shared::piece::{Digest, KeyPiece};
use crate::stream::{Failure, Turn};

/// A line of a batch: its number, or what is wrong with it.
#[derive(Debug)]
enum Line {
    Event(u64),
    Failure(Failure),
}

/// Lines whose events count together, in their order.
#[derive(Debug, Default)]
struct Chunk {
    lines: Vec<Line>,
    /// The events of those lines that have one.
    commands: Vec<Command>,
    bytes: usize,
}

/// Part of a batch with an idempotency key. Lines make the same parts whenever they are sent.
#[derive(Debug, Clone, Copy)]
struct Part {
    number: u32,
    content: Digest,
}

/// What became of the events of a chunk.
type Outcome = Result<Applied, AppendError>;

/// Lines on their way through the log.
#[derive(Debug)]
struct Sent {
    lines: Vec<Line>,
    /// If the batch has a key.
    part: Option<Part>,
    /// `None` when none of them has an event.
    appending: Option<Appending>,
}

/// Lines that are through, and what became of their events.
#[derive(Debug)]
struct Settled {
    lines: Vec<Line>,
    /// If the batch has a key.
    part: Option<Part>,
    outcome: Outcome,
}

/// What a batch waited for.
enum Step {
    /// A piece of the body or its end; whether it broke off.
    Read(Result<(), String>),
    /// The outcome of the chunk that was sent first.
    Settled(Settled),
    /// The client is gone.
    Left,
}

/// Why no more lines are put together for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// No line is at hand.
    Starved,
    /// The chunk has as much as it may have.
    ChunkFull,
    /// Other requests should have their turn.
    TurnOver,
}

/// The lines of a batch on their way into the log and out of it.
struct Pipeline<'a> {
    api: &'a Api,
    log: &'a dyn Append,
    input: Lines,
    key: Option<Digest>,
    /// Parts that were sent, if there is a key.
    parts: u32,
    filling: Chunk,
    /// An event that did not fit into the chunk before it.
    next: Option<(u64, Command)>,
    sent: VecDeque<Sent>,
    turn: Turn,
    /// Whether more lines can be had from the body only.
    is_starved: bool,
}

impl<'a> Pipeline<'a> {
    /// Begins a batch, which may have an idempotency key: with the token.
    fn new(api: &'a Api, log: &'a dyn Append, input: Lines, key: Option<Digest>) -> Self {
        Self {
            api,
            log,
            input,
            key,
            parts: 0,
            filling: Chunk::default(),
            next: None,
            sent: VecDeque::new(),
            turn: Turn::default(),
            is_starved: false,
        }
    }

    /// Sends the lines at hand, as far as there is room for them.
    async fn send_all(&mut self) {
        self.is_starved = false;
        while self.sent.len() < CHUNKS_MAX {
            match self.fill() {
                Pause::ChunkFull => self.send(),
                Pause::TurnOver => self.turn.end().await,
                Pause::Starved => {
                    // Parts of a batch with a key do not depend on how its lines come.
                    if self.key.is_none() || self.input.stream.has_ended() {
                        self.send();
                    }
                    self.is_starved = true;
                    return;
                }
            }
        }
    }

    /// Returns whether every line of the body is through.
    fn is_over(&self) -> bool {
        self.is_starved && self.input.stream.has_ended() && self.sent.is_empty()
    }

    /// Puts lines at hand into the chunk.
    fn fill(&mut self) -> Pause {
        loop {
            let (events_max, bytes_max) = (
                self.api.limits.chunk_events_max,
                self.api.limits.chunk_bytes_max,
            );
            let lines_max = events_max * CHUNK_LINES_FACTOR;
            if self.filling.commands.len() >= events_max || self.filling.lines.len() >= lines_max {
                return Pause::ChunkFull;
            }
            let (number, command) = match self.next.take() {
                Some(next) => next,
                None => match self.input.next() {
                    None => return Pause::Starved,
                    Some((number, Ok(event))) => {
                        let command = command(&event, Reach::Subscribers, self.input.is_stored);
                        (number, command)
                    }
                    Some((line, Err(error))) => {
                        self.fail(line, error);
                        if self.turn.is_over(0) {
                            return Pause::TurnOver;
                        }
                        continue;
                    }
                },
            };
            let bytes = command.encoded_bytes();
            if self.filling.bytes + bytes > bytes_max && !self.filling.commands.is_empty() {
                self.next = Some((number, command));
                return Pause::ChunkFull;
            }
            self.filling.bytes += bytes;
            self.filling.commands.push(command);
            self.filling.lines.push(Line::Event(number));
            if self.turn.is_over(0) {
                return Pause::TurnOver;
            }
        }
    }

    /// Puts a bad line at its place.
    fn fail(&mut self, line: u64, error: String) {
        let failure = Failure { line, error };
        self.filling.lines.push(Line::Failure(failure));
    }

    /// Sends the chunk.
    fn send(&mut self) {
        let Chunk {
            lines,
            mut commands,
            ..
        } = mem::take(&mut self.filling);
        if lines.is_empty() {
            return;
        }
        if commands.is_empty() {
            return self.sent.push_back(Sent {
                lines,
                part: None,
                appending: None,
            });
        }
        let part = self.key.map(|key| {
            let (number, content) = (self.parts, content(&commands));
            self.parts += 1;
            let claim = KeyPiece::Claim {
                key,
                part: number,
                content,
                commands: commands.len() as u32,
            };
            commands.insert(0, claim.command());
            Part { number, content }
        });
        self.sent.push_back(Sent {
            lines,
            part,
            appending: Some(append(self.log, commands, Wait::Delivered)),
        });
    }

    /// Waits for the outcome of the chunk that was sent first and, if no line is at hand, for more
    /// of the body. `is_left` tells whether the client is gone, and if not wakes the task when it
    /// goes.
    async fn step(&mut self, mut is_left: impl FnMut(&Context<'_>) -> bool) -> Step {
        let reads_on = self.is_starved && !self.input.stream.has_ended();
        poll_fn(|context| {
            if let Poll::Ready(settled) = self.poll_settled(context) {
                return Poll::Ready(Step::Settled(settled));
            }
            if reads_on && let Poll::Ready(read) = self.input.stream.poll_more(context) {
                return Poll::Ready(Step::Read(read));
            }
            match is_left(context) {
                true => Poll::Ready(Step::Left),
                false => Poll::Pending,
            }
        })
        .await
    }

    fn poll_settled(&mut self, context: &mut Context<'_>) -> Poll<Settled> {
        let Some(first) = self.sent.front_mut() else {
            return Poll::Pending;
        };
        let outcome = match &mut first.appending {
            None => Ok(Applied {
                first: Position::default(),
                results: Vec::new(),
                nodes: 0,
                missing: Vec::new(),
            }),
            Some(appending) => ready!(Pin::new(appending).poll(context)),
        };
        let (lines, part) = (mem::take(&mut first.lines), first.part);
        self.sent.pop_front();
        let outcome = outcome.map(|mut applied| {
            // The result of the key, in front of those of the events.
            if part.is_some() && !applied.results.is_empty() {
                applied.results.remove(0);
            }
            applied
        });
        Poll::Ready(Settled {
            lines,
            part,
            outcome,
        })
    }
}

/// Returns the digest of what events publish.
fn content(commands: &[Command]) -> Digest {
    let mut hashing = Hashing::new(&SHA256);
    for command in commands {
        let Command::Event(event) = command else {
            continue;
        };
        hashing.update(&[event.tag, u8::from(event.is_stored)]);
        let subject = event.subject.to_string();
        for part in [
            subject.as_bytes(),
            event.event_type.as_bytes(),
            &event.payload,
        ] {
            hashing.update(&(part.len() as u64).to_le_bytes());
            hashing.update(part);
        }
    }
    Digest::of(hashing)
}
