//! What badly behaved clients do, each at its time.

use std::cmp::Reverse;
use std::time::Duration;

use rustix::net::{SendFlags, send};

use super::ClientThread;
use crate::flood::behaviours::Behaviour;
use crate::flood::stream::Stream;
use crate::poll::Interest;

impl ClientThread<'_> {
    /// Lets all act whose time has come. Says how long to wait for the next.
    pub(super) fn act(&mut self) -> Option<Duration> {
        let now = self.now();
        // Those that act again do so later than now, so this comes to an end.
        while let Some(&Reverse((at, index))) = self.acts.peek() {
            if let Some(early) = Duration::from_nanos(at).checked_sub(now)
                && !early.is_zero()
            {
                return Some(early);
            }
            self.acts.pop();
            if self.returns(index as usize) {
                self.return_or_cut(index as usize, at);
            } else {
                self.act_once(index as usize);
            }
        }
        None
    }

    /// Puts the client's next act where it belongs in time.
    pub(super) fn act_later(&mut self, index: usize) {
        let every = self.config.behaviours.every.max(Duration::from_millis(1));
        let at = (self.now() + every).as_nanos();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        self.acts.push(Reverse((at, index as u32)));
    }

    /// The client's stream is open: from here on it may behave badly.
    pub(super) fn begin_to_misbehave(&mut self, index: usize) {
        let Stream::Body(socket, _) = &self.streams[index] else {
            return;
        };
        match self.behaviour(index) {
            Behaviour::Good | Behaviour::Trickles => {}
            Behaviour::Resets | Behaviour::Reconnects => self.act_later(index),
            Behaviour::StopsReading | Behaviour::Slow => {
                // The socket fills; of a reset the poller still tells.
                let _ = self.poller.modify(socket, index as u64, Interest::empty());
                if self.behaviour(index) == Behaviour::Slow {
                    self.act_later(index);
                }
            }
        }
    }

    fn act_once(&mut self, index: usize) {
        match (&self.streams[index], self.behaviour(index)) {
            (Stream::Closed, role) if role.comes_back() => self.begin(index),
            (Stream::Body(..), Behaviour::Resets) => self.leave(index, true),
            (Stream::Body(..), Behaviour::Reconnects) => self.leave(index, false),
            (Stream::Body(..), Behaviour::Slow) => {
                self.receive(index, 1);
                if matches!(self.streams[index], Stream::Body(..)) {
                    self.act_later(index);
                }
            }
            (Stream::Trickling(..), _) => self.trickle(index),
            // Its head has not come yet, or its stream has ended: another act follows from that.
            _ => {}
        }
    }

    /// Sends one more byte of the request.
    fn trickle(&mut self, index: usize) {
        self.write_trickled(index);
        let Stream::Trickling(socket, sent) = &mut self.streams[index] else {
            return;
        };
        let at = usize::from(*sent);
        // Before the handshake is over nothing is sent, and the byte waits for the next time.
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
