//! Ends of connections: the only place that closes them, counts them and schedules reconnects.

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
    /// Closes a stream that the server ended as its protocol requires.
    pub(super) fn complete(&mut self, index: usize) {
        self.close(index, |closes| &mut closes.complete);
    }

    /// Handles the end of the connection by the server.
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

    /// Handles an error of the connection.
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

    /// Handles bytes that violate the protocol.
    pub(super) fn on_malformed(&mut self, index: usize, malformed: Malformed) {
        self.on_broken(index, FailureKind::Malformed, &malformed.to_string());
    }

    /// Closes a connection whose bytes are unusable, for the reason `failure`.
    pub(super) fn on_broken(&mut self, index: usize, failure: FailureKind, detail: &str) {
        if !matches!(self.streams[index], Stream::Body(..)) {
            return self.drop_unanswered(index, failure, detail);
        }
        self.tally.failure(failure, 1, detail);
        self.close(index, |closes| &mut closes.malformed);
    }

    /// Closes a stream on the client's side: with a reset or normally.
    pub(super) fn leave(&mut self, index: usize, with_reset: bool) {
        if let Stream::Body(socket, _) = &self.streams[index]
            && with_reset
        {
            let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
        } else {
            self.send_close_notify(index);
        }
        self.close(index, |closes| &mut closes.own);
        if self.behaviour(index).reconnects() {
            self.act_later(index);
        }
    }

    /// Closes a stream that has been silent for too long.
    pub(super) fn time_out(&mut self, index: usize) {
        self.close(index, |closes| &mut closes.timed_out);
    }

    /// Closes a connection that has no open stream yet, and counts it as failed.
    pub(super) fn drop_unanswered(&mut self, index: usize, failure: FailureKind, detail: &str) {
        self.streams[index] = Stream::Closed;
        self.secure.forget(index);
        self.answered(index);
        self.fail(index, failure, detail);
    }

    /// Records that a client no longer awaits its head.
    pub(super) fn answered(&mut self, index: usize) {
        if self.behaviour(index) != Behaviour::Trickles {
            self.unanswered -= 1;
            self.first_unanswered.remove(&index);
        }
    }

    /// Counts a failed connection attempt.
    pub(super) fn fail(&mut self, index: usize, failure: FailureKind, detail: &str) {
        if self.fail_to_return(index) {
            return;
        }
        // Failures of misbehaving clients do not predict those of the others.
        if self.behaviour(index) == Behaviour::Good {
            self.failures_in_row += 1;
        }
        self.reading.counts.failed += 1;
        self.tally.failure(failure, 1, detail);
        if self.behaviour(index).reconnects() {
            self.act_later(index);
        }
    }

    /// Closes an open stream, counts the reason, and schedules the reconnect if clients reconnect.
    fn close(&mut self, index: usize, reason: impl FnOnce(&mut Closes) -> &mut u64) {
        self.streams[index] = Stream::Closed;
        self.secure.forget(index);
        *reason(&mut self.reading.counts.closes) += 1;
        self.return_later(index);
    }

    /// Resets every connection, so that a million ports do not stay in TIME_WAIT for a minute.
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
