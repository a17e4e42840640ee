//! Timed actions of clients: misbehaviour, cuts and reconnects.

use std::cmp::Reverse;
use std::time::Duration;

use rustix::net::{SendFlags, send};

use super::ClientThread;
use crate::flood::behaviours::Behaviour;
use crate::flood::stream::Stream;
use crate::poll::Interest;

impl ClientThread<'_> {
    /// Performs all actions that are due. Returns the time until the next one.
    pub(super) fn perform_due_actions(&mut self) -> Option<Duration> {
        let now = self.now();
        // This loop ends, as every follow-up action is due later than `now`.
        while let Some(&Reverse((at, index))) = self.actions.peek() {
            if let Some(early) = Duration::from_nanos(at).checked_sub(now)
                && !early.is_zero()
            {
                return Some(early);
            }
            self.actions.pop();
            if self.always_reconnects(index as usize) {
                self.return_or_cut(index as usize, at);
            } else {
                self.misbehave(index as usize);
            }
        }
        None
    }

    /// Schedules the client's next action after `every`.
    pub(super) fn act_later(&mut self, index: usize) {
        let every = self.config.behaviours.every.max(Duration::from_millis(1));
        let at = (self.now() + every).as_nanos();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        self.actions.push(Reverse((at, index as u32)));
    }

    /// Starts the misbehaviour of a client whose stream has just opened.
    pub(super) fn begin_to_misbehave(&mut self, index: usize) {
        let Stream::Body(socket, _) = &self.streams[index] else {
            return;
        };
        match self.behaviour(index) {
            Behaviour::Good | Behaviour::Trickles => {}
            Behaviour::Resets | Behaviour::Reconnects => self.act_later(index),
            Behaviour::StopsReading | Behaviour::Slow => {
                // The socket fills up; the poller still reports a reset.
                let _ = self.poller.modify(socket, index as u64, Interest::empty());
                if self.behaviour(index) == Behaviour::Slow {
                    self.act_later(index);
                }
            }
        }
    }

    fn misbehave(&mut self, index: usize) {
        match (&self.streams[index], self.behaviour(index)) {
            (Stream::Closed, behaviour) if behaviour.reconnects() => self.begin(index),
            (Stream::Body(..), Behaviour::Resets) => self.leave(index, true),
            (Stream::Body(..), Behaviour::Reconnects) => self.leave(index, false),
            (Stream::Body(..), Behaviour::Slow) => {
                self.receive(index, 1);
                if matches!(self.streams[index], Stream::Body(..)) {
                    self.act_later(index);
                }
            }
            (Stream::Trickling(..), _) => self.trickle(index),
            // The client awaits its head, or its stream has ended; what follows schedules the next
            // action.
            _ => {}
        }
    }

    /// Sends the next byte of the request.
    fn trickle(&mut self, index: usize) {
        self.write_trickled(index);
        let Stream::Trickling(socket, sent) = &mut self.streams[index] else {
            return;
        };
        let at = usize::from(*sent);
        // Until the TCP handshake is done, sending fails and the byte is tried again next time.
        if send(&*socket, &self.request[at..=at], SendFlags::NOSIGNAL).is_ok() {
            *sent += 1;
        }
        if usize::from(*sent) < self.request.len() {
            self.act_later(index);
            return;
        }
        if let Stream::Trickling(socket, _) =
            std::mem::replace(&mut self.streams[index], Stream::Closed)
        {
            self.streams[index] = Stream::Head(socket, Vec::new());
        }
    }
}
