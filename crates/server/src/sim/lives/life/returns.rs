//! Clients that come back with cursors, in a life with a history.

use std::rc::Rc;
use std::time::Duration;

use simulated::Dice;

use super::{Client, Life, Published, State, names};
use crate::sim::parts::left;
use crate::sim::readers::{ALL_PATHS, Posted, Reader};

/// Polls until a reader has all that there is: an answer has at least eight events.
const POLLS_MAX: usize = 6;

/// Readers of a life.
const READERS_MAX: usize = 10;

impl Life {
    /// Returns somebody without a connection: often somebody who had one.
    pub(super) fn choose_reader(&mut self, dice: &mut Dice) -> usize {
        let waiting: Vec<_> = (0..self.readers.len())
            .filter(|&reader| self.may_come_back(reader))
            .collect();
        if waiting.is_empty() || (self.readers.len() < READERS_MAX && dice.roll(3) == 0) {
            let reader = Reader::new(names(dice), &ALL_PATHS, dice);
            self.readers.push(reader);
            return self.readers.len() - 1;
        }
        let reader = waiting[dice.roll(waiting.len())];
        self.collect(reader, dice);
        self.readers[reader].mistake_cursor(dice);
        reader
    }

    /// Returns whether a reader has no connection, or one that ends or has brought the answer to a
    /// poll.
    fn may_come_back(&self, reader: usize) -> bool {
        let mut connections = self.clients.iter().filter(|it| it.reader == Some(reader));
        connections.all(|it| {
            let net = self.stations[it.station].net.borrow();
            let is_answered = it.polls && !net.peers[it.number].outbound.is_empty();
            is_answered || matches!(it.state, State::Leaving | State::Gone)
        })
    }

    /// Lets a reader read a part of what its last connection has brought, or all of it.
    fn collect(&mut self, reader: usize, dice: &mut Dice) {
        let mut last = self.clients.iter().filter(|it| it.reader == Some(reader));
        if let Some(client) = last.next() {
            let net = self.stations[client.station].net.borrow();
            let length = net.peers[client.number].outbound.len();
            drop(net);
            let read = match dice.roll(3) {
                0 => length,
                _ => dice.roll(length + 1),
            };
            self.read(reader, read);
        }
    }

    /// Lets a reader read so many bytes of its connection, which is over for it.
    fn read(&mut self, reader: usize, bytes: usize) {
        let is_its = |it: &&mut Client| it.reader == Some(reader);
        let client = self.clients.iter_mut().find(is_its);
        let client = client.expect("it has a connection");
        client.reader = None;
        let net = self.stations[client.station].net.borrow();
        let bytes = &net.peers[client.number].outbound[..bytes];
        let left = left(&self.parts.handle);
        self.readers[reader].read(bytes, left, |position, data| {
            find(&self.published, position, data)
        });
    }

    /// Checks that all readers have what they are owed: first those that are there, then those that
    /// come back.
    pub(super) fn judge_readers(&mut self, dice: &mut Dice) {
        let (absent, present): (Vec<_>, Vec<_>) = (0..self.readers.len())
            .partition(|&reader| self.readers[reader].polls() || self.may_come_back(reader));
        for reader in present {
            self.read_all(reader);
            self.judge_reader(reader);
        }
        if self.is_draining {
            return;
        }
        for &reader in &absent {
            self.collect(reader, dice);
            self.come_back(reader, dice);
        }
        self.run(Duration::from_secs(2));
        for nth in 0..4 {
            self.publish(nth % self.stations.len(), dice);
        }
        self.rest();
        self.run(Duration::from_secs(1));
        for reader in absent {
            self.read_all(reader);
            // An answer has so much of what there is, and the next one has more.
            for _ in 0..POLLS_MAX {
                if self.readers[reader].polls() {
                    self.come_back(reader, dice);
                    self.run(Duration::from_millis(300));
                    self.read_all(reader);
                }
            }
            self.judge_reader(reader);
        }
    }

    /// Lets a reader come back to any worker.
    fn come_back(&mut self, reader: usize, dice: &mut Dice) {
        let request = self.readers[reader].connect();
        let ids = self.readers[reader].ids.clone();
        let station = dice.roll(self.stations.len());
        self.arrive(station, &request, ids, usize::MAX, usize::MAX);
        self.clients
            .last_mut()
            .expect("it has come")
            .is_of(reader, &self.readers[reader]);
    }

    /// Lets a reader read all that there is.
    fn read_all(&mut self, reader: usize) {
        let is_its = |it: &&Client| it.reader == Some(reader);
        let client = self.clients.iter().find(is_its).expect("it is connected");
        let net = self.stations[client.station].net.borrow();
        let length = net.peers[client.number].outbound.len();
        drop(net);
        self.read(reader, length);
    }

    fn judge_reader(&self, reader: usize) {
        let published = self.published.iter().map(|it| &it.posted);
        let name = format!("reader {reader}");
        self.readers[reader].judge(name, published, &self.edges);
    }
}

fn find<'a>(published: &'a [Rc<Published>], position: u64, data: &str) -> Option<&'a Posted> {
    let mut published = published.iter();
    let found = published.find(|it| it.posted.position == position && it.text == data);
    found.map(|it| &it.posted)
}
