//! What goes wrong in a life.

use std::collections::BTreeSet;

use simulated::Dice;

use super::{Life, State, name};
use crate::settings::LiveSettings;
use crate::sim::world::id;

/// What strangers say: nothing, a part of a head, what is no HTTP, what nobody may ask for.
const RUBBISH: [&str; 5] = [
    "",
    "GET /events/1 HTTP/1.1\r\nHost: loc",
    "\x16\x03\x01\x02\0\x01\0",
    "POST /events/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc",
    "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n",
];

impl Life {
    /// The operator closes all sessions of an id.
    pub(super) fn kick(&mut self, dice: &mut Dice) {
        if dice.roll(4) > 0 {
            return;
        }
        let name = name(dice);
        let sessions = self.parts.handle.router().sessions(&id(name));
        self.parts.handle.close(&sessions);
        self.note(|| format!("{name} is closed"));
        for client in self.sessions_of(&BTreeSet::from([name])) {
            client.is_faithful = false;
            client.state = State::Leaving;
        }
    }

    /// Strangers come, now and then more than a worker accepts in a turn. Some of them break off or
    /// end at once.
    pub(super) fn crowd(&self, nth: usize, dice: &mut Dice) {
        if self.is_draining {
            return;
        }
        let count = match dice.roll(8) {
            0 => 64 + dice.roll(100),
            _ => dice.roll(40),
        };
        self.note(|| format!("{count} strangers come to {nth}"));
        let mut net = self.stations[nth].net.borrow_mut();
        for _ in 0..count {
            let said = RUBBISH[dice.roll(RUBBISH.len())];
            let stranger = net.connect(said.as_bytes(), dice.roll(1000), usize::MAX);
            match dice.roll(6) {
                0..=1 => net.break_off(stranger),
                2 => {
                    net.peers[stranger].sip = Some(1 + dice.roll(8));
                    net.end(stranger);
                }
                _ => {}
            }
        }
    }

    pub(super) fn take_descriptors(&mut self, nth: usize) {
        self.note(|| format!("{nth} has no descriptors"));
        let net = &mut *self.stations[nth].net.borrow_mut();
        self.taken[nth] += std::mem::take(&mut net.descriptors);
    }

    pub(super) fn give_descriptors(&mut self, nth: usize) {
        self.note(|| format!("{nth} has descriptors again"));
        let net = &mut *self.stations[nth].net.borrow_mut();
        net.descriptors += std::mem::take(&mut self.taken[nth]);
    }

    /// The poller refuses to watch sockets at all, or for room.
    pub(super) fn refuse_watches(&self, nth: usize, dice: &mut Dice) {
        let (new, full) = (dice.roll(3), dice.roll(3));
        self.note(|| format!("the poller of {nth} refuses {new} new sockets, {full} full ones"));
        let mut net = self.stations[nth].net.borrow_mut();
        (net.refused_watches, net.refused_changes) = (new, full);
    }

    /// The clock on the wall is set, by up to ten years.
    pub(super) fn set_clock(&self, nth: usize, dice: &mut Dice) {
        let seconds = [-315_360_000, -3600, 3600, 315_360_000][dice.roll(4)];
        self.note(|| format!("the clock of {nth} is set {seconds} s forward"));
        self.stations[nth].net.borrow_mut().set_forward = seconds;
    }

    /// The server is told to end, seldom: nothing comes after that.
    pub(super) fn drain(&mut self, dice: &mut Dice) {
        if dice.roll(16) > 0 {
            return;
        }
        self.note(|| "the server drains".to_owned());
        self.is_draining = true;
        self.parts.handle.drain();
    }

    /// No fault happens any more, and whoever has not read reads.
    pub(in super::super) fn heal(&mut self) {
        let waiting = self.clients.iter_mut().filter(|it| !it.unsaid.is_empty());
        for client in waiting {
            let mut net = self.stations[client.station].net.borrow_mut();
            net.say(client.number, &std::mem::take(&mut client.unsaid));
        }
        let _ = self.parts.handle.reload(|live| LiveSettings {
            max_connections: usize::MAX,
            ..live.clone()
        });
        for nth in 0..self.stations.len() {
            self.give_descriptors(nth);
            self.stations[nth].make_all_room();
            let mut net = self.stations[nth].net.borrow_mut();
            (net.refused_watches, net.refused_changes) = (0, 0);
            net.peers.iter_mut().for_each(|it| it.sip = None);
        }
    }
}
