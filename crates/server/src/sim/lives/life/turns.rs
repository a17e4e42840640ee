//! Turns of the workers, and time.

use std::collections::BTreeSet;
use std::time::Duration;

use simulated::Dice;

use super::{Client, HEAD_TIMEOUT, Life, NAMES, Published, State};
use crate::sim::readers::is_served;
use crate::sim::station::{assert_no_mail_waits, turn_until_rest};

impl Life {
    pub(super) fn turn(&mut self, nth: usize) {
        let station = &mut self.stations[nth];
        if !station.turn(&self.parts) {
            return;
        }
        let net = station.net.borrow();
        let may_refuse = self.is_limited || self.is_draining;
        for (name, client) in self.clients.iter_mut().enumerate() {
            if client.station != nth || client.state == State::Gone {
                continue;
            }
            let peer = &net.peers[client.number];
            let was_coming = client.state == State::Coming;
            client.state = match client.polls {
                true => {
                    let is_known = station.worker.is_polling(peer.token);
                    client.state.behind_a_turn_with_poll(peer, is_known)
                }
                false => client.state.behind_a_turn(peer),
            };
            let is_answered = peer.closed || !peer.outbound.is_empty();
            if was_coming && is_answered && !is_served(&peer.outbound) {
                // There was no room for it, or its request came too late.
                let waited = net.now.since(client.came);
                let is_late = client.is_slow_to_speak && waited >= HEAD_TIMEOUT;
                let answer = String::from_utf8_lossy(&peer.outbound);
                assert!(
                    may_refuse || is_late || peer.watch_refused,
                    "client {name} is told: {answer}"
                );
                (client.state, client.is_faithful) = (State::Gone, false);
            }
            if station.worker.is_ending(peer.token) {
                // Logged out, while what it was sent waits for its socket.
                client.state = State::Gone;
            }
            client.is_faithful &= !(peer.watch_refused && peer.closed);
            let is_gone = client.state == State::Gone;
            assert!(
                !(is_gone && client.is_faithful) || self.is_draining,
                "client {name} kept up and was closed"
            );
        }
    }

    /// Time passes, for some of the workers without a turn.
    pub(super) fn pass(&mut self, dice: &mut Dice) {
        let tenths = 1 + dice.roll(30);
        self.note(|| format!("{tenths} tenths of a second pass"));
        for _ in 0..tenths {
            self.pass_a_tenth();
            for nth in 0..self.stations.len() {
                if dice.roll(3) > 0 {
                    self.turn(nth);
                }
            }
        }
    }

    fn pass_a_tenth(&self) {
        for station in &self.stations {
            station.net.borrow_mut().pass(Duration::from_millis(100));
        }
    }

    /// Lets the workers come to rest: no mail waits at one that sleeps, and what a receipt calls
    /// written is there, before anybody reads more.
    pub(in super::super) fn rest(&mut self) {
        self.note(|| "the workers come to rest".to_owned());
        turn_until_rest(self, |it| &it.stations, Self::turn);
        assert_no_mail_waits(&self.stations);
        for published in &self.published[self.looked_at..] {
            let Published { text, tally, .. } = &**published;
            assert_eq!(tally.pending(), 0, "the receipt of {text}");
            let has = |client: &&Client| {
                let net = self.stations[client.station].net.borrow();
                let sent = &net.peers[client.number].outbound;
                sent.windows(text.len()).any(|it| it == text.as_bytes())
            };
            let have = self.clients.iter().filter(has).count() as u64;
            let written = tally.counts().written;
            assert!(
                written <= have,
                "{text}: {written} written, and {have} have it"
            );
        }
        self.looked_at = self.published.len();
        self.take_moves();
    }

    /// Takes who came and went, as the presence thread does, and compares with who is there.
    fn take_moves(&mut self) {
        let router = self.parts.handle.router();
        let mut moves = Vec::new();
        router.take_moves(&mut moves);
        for moved in moves {
            let id = router.graph().name(moved.key).expect("it is held");
            let id = NAMES.into_iter().find(|name| *name == id.to_string());
            let id = id.expect("an id of these lives");
            match moved.online {
                true => self.online.insert(id),
                false => self.online.remove(id),
            };
            if moved.is_held {
                router.graph().release(moved.key);
            }
        }
        if self.is_draining {
            return;
        }
        let online = self.clients.iter().filter(|it| it.state == State::Online);
        let online: BTreeSet<_> = online.flat_map(|it| it.ids.iter().copied()).collect();
        assert_eq!(self.online, online, "who came and went");
    }

    /// Lets time pass for all workers alike.
    pub(in super::super) fn run(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            turn_until_rest(self, |it| &it.stations, Self::turn);
            self.pass_a_tenth();
        }
    }
}
