//! How connections end: the only place where one is closed, counted, and perhaps begun again.

use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;

use super::ClientThread;
use crate::flood::behaviours::Behaviour;
use crate::flood::failure_kind::FailureKind;
use crate::flood::stream::{Heading, Stream};
use crate::flood::tally::Closes;
use client::decode::Malformed;

impl ClientThread<'_> {
    /// The server has ended the stream as its protocol asks.
    pub(super) fn complete(&mut self, index: usize) {
        self.close(index, |closes| &mut closes.complete);
    }

    /// The server has ended the connection.
    pub(super) fn on_end(&mut self, index: usize) {
        match &mut self.streams[index] {
            Stream::Body(_, body) if body.may_end_here() => self.complete(index),
            Stream::Body(..) => self.close(index, |closes| &mut closes.cut),
            Stream::Head(_, kept) => {
                let kept = std::mem::take(kept);
                match self.heading(index, &kept, true) {
                    Ok(Heading::Refused(status, line)) => {
                        self.drop_unanswered(index, FailureKind::Status(status), &line);
                    }
                    _ => self.drop_unanswered(index, FailureKind::EndedEarly, ""),
                }
            }
            _ => self.drop_unanswered(index, FailureKind::EndedEarly, ""),
        }
    }

    /// The connection has failed.
    pub(super) fn on_error(&mut self, index: usize, errno: Errno) {
        if !matches!(self.streams[index], Stream::Body(..)) {
            return self.drop_unanswered(index, FailureKind::of(errno), &errno.to_string());
        }
        self.close(index, |closes| match errno {
            Errno::CONNRESET | Errno::PIPE => &mut closes.reset,
            Errno::TIMEDOUT => &mut closes.timed_out,
            _ => &mut closes.other,
        });
    }

    /// The bytes are not those of the protocol.
    pub(super) fn on_malformed(&mut self, index: usize, malformed: Malformed) {
        self.on_broken(index, FailureKind::Malformed, &malformed.to_string());
    }

    /// The bytes are of no use, for this reason.
    pub(super) fn on_broken(&mut self, index: usize, failure: FailureKind, detail: &str) {
        if !matches!(self.streams[index], Stream::Body(..)) {
            return self.drop_unanswered(index, failure, detail);
        }
        self.tally.failure(failure, 1, detail);
        self.close(index, |closes| &mut closes.malformed);
    }

    /// The client leaves on purpose: with a reset, or as one should.
    pub(super) fn leave(&mut self, index: usize, with_reset: bool) {
        if let Stream::Body(socket, _) = &self.streams[index]
            && with_reset
        {
            let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
        } else {
            self.take_leave(index);
        }
        self.close(index, |closes| &mut closes.own);
        if self.behaviour(index).comes_back() {
            self.act_later(index);
        }
    }

    /// The stream has been silent for too long.
    pub(super) fn time_out(&mut self, index: usize) {
        self.close(index, |closes| &mut closes.timed_out);
    }

    /// Ends a client that was begun and has no stream.
    pub(super) fn drop_unanswered(&mut self, index: usize, failure: FailureKind, detail: &str) {
        self.streams[index] = Stream::Closed;
        self.secure.forget(index);
        self.answered(index);
        self.fail(index, failure, detail);
    }

    /// Takes note that a client which was begun no longer waits for its head.
    pub(super) fn answered(&mut self, index: usize) {
        if self.behaviour(index) != Behaviour::Trickles {
            self.unanswered -= 1;
            self.first_unanswered.remove(&index);
        }
    }

    /// Counts a client that came to nothing.
    pub(super) fn fail(&mut self, index: usize, failure: FailureKind, detail: &str) {
        if self.fail_to_return(index) {
            return;
        }
        // What befalls those that ask for it says nothing of the rest.
        if self.behaviour(index) == Behaviour::Good {
            self.failures_in_row += 1;
        }
        self.reading.counts.failed += 1;
        self.tally.failure(failure, 1, detail);
        if self.behaviour(index).comes_back() {
            self.act_later(index);
        }
    }

    /// Ends an open stream. One that would have left by itself comes back when that was due.
    fn close(&mut self, index: usize, reason: impl FnOnce(&mut Closes) -> &mut u64) {
        self.streams[index] = Stream::Closed;
        self.secure.forget(index);
        *reason(&mut self.reading.counts.closes) += 1;
        self.return_later(index);
    }

    /// Resets every connection: a million ports must not wait a minute each.
    pub(super) fn close_all(&mut self) {
        for stream in std::mem::take(&mut self.streams) {
            if let Stream::Connecting(socket)
            | Stream::Trickling(socket, _)
            | Stream::Head(socket, _)
            | Stream::Body(socket, _) = stream
            {
                let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
            }
        }
    }
}
