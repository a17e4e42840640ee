//! A simulated worker and its network, which takes a turn when it is told.

use std::sync::Arc;

use reactor::{Handler as _, Mailbox};
use simulated::network::SharedNetwork as Net;
use simulated::{SimDriver, Turns};

use super::parts::{Parts, assert_budget_is_true, assert_nothing_is_left, has_reason, worker};
use crate::listener::ListenerKind;
use crate::mail::Mail;
use crate::worker::Worker;

/// A worker of several, with a plain listener. Owned by a simulation.
pub(super) struct Station {
    nth: u16,
    pub(super) net: Net,
    pub(super) worker: Worker<SimDriver>,
    pub(super) mailbox: Arc<Mailbox<Mail>>,
    turns: Turns,
    /// The worker has ended, and its mail was shed.
    pub(super) is_over: bool,
}

impl Station {
    /// Makes all workers of a server.
    pub(super) fn all(parts: &Parts) -> Vec<Self> {
        let external_workers = usize::from(parts.shared.settings.external_workers);
        let own = &parts.mailboxes[..parts.mailboxes.len() - external_workers];
        let of = |(nth, mailbox): (u16, &Arc<_>)| {
            let kinds = [ListenerKind::Plain];
            let mut worker = worker(nth, &parts.shared, &kinds);
            Self {
                net: Net::clone(&worker.table.driver.0),
                nth,
                turns: Turns::new(&mut worker),
                worker,
                mailbox: Arc::clone(mailbox),
                is_over: false,
            }
        };
        (0..).zip(own).map(of).collect()
    }

    /// Lets the worker take a turn, if it has a reason to. Returns whether it has not ended.
    pub(super) fn turn(&mut self, parts: &Parts) -> bool {
        if self.worker.is_over() {
            if !std::mem::replace(&mut self.is_over, true) {
                self.worker.conclude();
            }
            return false;
        }
        self.turns.take(&mut self.worker, &self.mailbox);
        assert_budget_is_true(&parts.shared.budget, self.nth, &self.worker);
        true
    }

    /// Whether the worker has a reason to take a turn.
    fn has_work(&self) -> bool {
        !self.is_over
            && (self.worker.is_over() || has_reason(&self.worker, &self.net, &self.mailbox))
    }

    /// Lets the socket of each connection take everything from now on.
    pub(super) fn make_all_room(&self) {
        let mut net = self.net.borrow_mut();
        for number in 0..net.peers.len() {
            net.make_room(number, usize::MAX);
            net.peers[number].bite = usize::MAX;
        }
    }

    /// Checks that no connection has left anything.
    pub(super) fn assert_nothing_is_left(&self) {
        assert_nothing_is_left(&self.worker, &self.mailbox);
        let net = self.net.borrow();
        assert!(net.peers.iter().all(|it| it.closed), "sockets");
    }
}

/// Turns of all workers until none has a reason to take one. No time passes.
pub(super) fn turn_until_rest<T>(
    all: &mut T,
    stations: impl Fn(&T) -> &[Station],
    turn: impl Fn(&mut T, usize),
) {
    let mut turns = 0;
    while turns < 2 || stations(all).iter().any(Station::has_work) {
        (0..stations(all).len()).for_each(|nth| turn(all, nth));
        turns += 1;
        assert!(turns < 10_000, "the workers do not come to rest");
    }
}

/// Checks that no mail waits at workers that have come to rest, and so sleep.
pub(super) fn assert_no_mail_waits(stations: &[Station]) {
    for (nth, station) in stations.iter().enumerate() {
        assert_eq!(station.mailbox.waiting(), 0, "mail at {nth}, which sleeps");
    }
}

/// Returns a number for all that the workers have asked of their networks so far.
pub(super) fn digest(stations: &[Station]) -> u64 {
    let digests = stations.iter().map(|it| it.net.borrow().digest);
    digests.fold(0, |all, it| all.rotate_left(21) ^ it)
}
