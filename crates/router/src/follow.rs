//! Following a log: events get their positions from a replicated log, and from nowhere else.
//!
//! A position is the sequence of an entry in the log, and the place in the entry: positions ascend
//! and have gaps. All that is posted is posted by the one thread that applies the log, in order.

use std::fmt;
use std::sync::atomic::Ordering;

use crate::log::{Restored, RestoredEvent};
use crate::mailboxes::Mailboxes;
use crate::recorder::Recorder;
use crate::route::Router;

impl<M: Mailboxes> Router<M> {
    /// Lets the router follow a log from `head` on: everything up to there counts as posted, and as
    /// gone from the history. From now on events are posted by
    /// [`Planned::post_at`](crate::Planned::post_at) only. To be called before anything is served.
    ///
    /// # Errors
    ///
    /// If the router has posted events, or has restored some.
    pub fn follow_log(&self, head: u64) -> Result<(), FollowError> {
        let mut sequencer = self.sequencer.lock();
        if *sequencer != 0 {
            return Err(FollowError { head: *sequencer });
        }
        *sequencer = head;
        if let Some(recorder) = self.recorder() {
            recorder.begin_at(head);
        }
        self.head.store(head, Ordering::Release);
        self.follows_log.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns whether the positions of events come from a log.
    pub fn follows_log(&self) -> bool {
        self.follows_log.load(Ordering::Acquire)
    }

    /// Adds an event to the history that the log had before this run of the server: nobody gets it,
    /// unless a session comes back that has missed it. To be called by the thread that posts.
    pub fn refill(&self, event: RestoredEvent<'_>) {
        let position = event.position;
        if let Some(recorder) = self.recorder() {
            recorder.refill(&Restored::Event(event), self.graph());
        }
        self.advance_head(position);
    }

    /// Returns the time that the history stores events with; 0 without a history.
    pub fn seconds(&self) -> u32 {
        self.recorder().map_or(0, Recorder::seconds)
    }

    /// Moves the head to a position of the log without an event: all events up to there are posted.
    /// Does nothing if the head is there or further. To be called by the thread that posts.
    pub fn advance_head(&self, position: u64) {
        let mut sequencer = self.sequencer.lock();
        if position <= *sequencer || !self.follows_log() {
            return;
        }
        let recorder = self.recorder().map(|recorder| recorder.lock());
        *sequencer = position;
        self.head.store(position, Ordering::Release);
        drop(sequencer);
        if let Some(mut recorder) = recorder {
            recorder.advance(position);
        }
    }
}

/// Reason why a router cannot follow a log: it has numbered events itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowError {
    /// Number of its latest event.
    pub head: u64,
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the server has numbered events up to {} itself, so it cannot follow a log; start it \
             anew with an empty history",
            self.head
        )
    }
}

impl std::error::Error for FollowError {}
