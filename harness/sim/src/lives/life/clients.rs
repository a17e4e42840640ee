//! Clients that follow, and come back.

use server::sim::{ClientState as State, Reader, STREAMS, WEBSOCKET, is_served};
use simulated::Dice;

use super::presence::Told;
use super::session::Session;
use super::{Client, Happened, Life, Published, name};

/// Readers of a life.
const READERS_MAX: usize = 8;

const PATHS: [&str; 3] = [STREAMS[0], STREAMS[1], WEBSOCKET];

impl Life {
    /// Somebody comes, often somebody who was there before, and with the last id that it has.
    pub(super) fn connect(&mut self, worker: usize, dice: &mut Dice) {
        let absent: Vec<_> = (0..self.readers.len())
            .filter(|&reader| self.may_come_back(reader))
            .collect();
        let reader = match absent.len() {
            0 if self.readers.len() >= READERS_MAX => return,
            count if count > 0 && dice.roll(3) > 0 => absent[dice.roll(count)],
            _ if self.readers.len() >= READERS_MAX => return,
            _ => {
                let ids = (0..1 + dice.roll(2)).map(|_| name(dice)).collect();
                self.readers.push(Reader::new(ids, &PATHS, dice));
                let reader = self.readers.last_mut().expect("pushed just now");
                // Its first server is this one.
                reader.restart(self.process.epoch());
                reader.asks_presence = dice.roll(2) == 0;
                self.readers.len() - 1
            }
        };
        self.collect(reader, dice);
        let (room, bite) = match dice.roll(4) {
            0 => (600 + dice.roll(300), usize::MAX),
            1 => (usize::MAX, 12 + dice.roll(300)),
            _ => (usize::MAX, usize::MAX),
        };
        self.arrive(worker, reader, room, bite);
        let is_faithful = room == usize::MAX && bite == usize::MAX;
        let client = self.clients.last_mut().expect("it has come");
        client.session.is_faithful = is_faithful;
    }

    /// Whether a reader has no connection, or one that ends.
    pub(super) fn may_come_back(&self, reader: usize) -> bool {
        let mut own = self.clients.iter().filter(|it| it.reader == reader);
        own.all(|it| matches!(it.session.state, State::Leaving | State::Gone))
    }

    pub(super) fn arrive(&mut self, worker: usize, reader: usize, room: usize, bite: usize) {
        let request = self.readers[reader].connect();
        let line = request.lines().next().unwrap_or_default();
        self.note(|| format!("reader {reader} comes to {worker}: {line}"));
        let is_foreign = self.readers[reader].has_foreign_cursor();
        if is_foreign {
            self.happens(Happened::CameBackToAnother);
        }
        let server = &mut self.process.server;
        let at = server.connect(worker, request.as_bytes(), room, bite);
        self.clients.push(Client {
            at,
            reader,
            session: Session::coming(self.readers[reader].ids.clone(), false),
            is_read: false,
            told: Told::since(&self.attendance),
        });
    }

    /// Lets a reader read a part of what its last connection has brought, or all of it.
    pub(super) fn collect(&mut self, reader: usize, dice: &mut Dice) {
        if let Some(client) = self.unread(reader) {
            let length = self.process.server.sent_bytes(client.at);
            let read = match dice.roll(3) {
                0 => length,
                _ => dice.roll(length + 1),
            };
            self.read(reader, read);
        }
    }

    /// Lets a reader read so many bytes of its last connection, which is over for it.
    pub(super) fn read(&mut self, reader: usize, bytes: usize) {
        self.look_at_unanswered();
        let Some(at) = self.unread(reader).map(|it| it.at) else {
            return;
        };
        let server = &self.process.server;
        let published = &self.published;
        self.readers[reader].read(
            &server.sent(at)[..bytes],
            server.left(),
            |position, data| {
                let number = data.split(':').next()?.parse::<usize>().ok()?;
                let Published { text, posted, .. } = published.get(number)?;
                let is_it = text == data && (posted.position == position || posted.position == 0);
                is_it.then_some(posted)
            },
        );
        let client = self.clients.iter_mut().find(|it| it.at == at);
        client.expect("it is there").is_read = true;
    }

    /// Returns the connection of a reader of which it has read nothing yet.
    pub(super) fn unread(&self, reader: usize) -> Option<&Client> {
        let mut own = self.clients.iter().filter(|it| it.reader == reader);
        own.find(|it| !it.is_read)
    }

    /// Notes whom events may be for that have no receipt yet.
    pub(super) fn look_at_unanswered(&mut self) {
        for number in 0..self.published.len() {
            if !self.published[number].is_settled {
                let [_, possible] = self.readers_of(number);
                self.published[number].posted.readers = possible;
            }
        }
    }

    /// A client ends its side, or breaks off.
    pub(super) fn leave(&mut self, dice: &mut Dice) {
        let (nth, ends) = (dice.roll(self.clients.len().max(1)), dice.roll(2) == 0);
        let Some(client) = self.clients.get_mut(nth) else {
            return;
        };
        if client.session.state != State::Online {
            return;
        }
        client.session.leave();
        let (at, reader) = (client.at, client.reader);
        match ends {
            true => self.process.server.end(at),
            false => self.process.server.break_off(at),
        }
        self.note(|| format!("reader {reader} leaves, at its end: {ends}"));
    }

    /// A client has read a little.
    pub(super) fn make_room(&mut self, dice: &mut Dice) {
        let (nth, room) = (dice.roll(self.clients.len().max(1)), dice.roll(400));
        if let Some(&Client { at, reader, .. }) = self.clients.get(nth) {
            self.process.server.make_room(at, room);
            self.note(|| format!("reader {reader} has read {room} bytes"));
        }
    }

    /// Notes who has come and gone.
    pub(super) fn look_at_clients(&mut self) {
        let now = self.tick();
        let server = &self.process.server;
        for client in &mut self.clients {
            let session = &mut client.session;
            if session.state == State::Gone {
                continue;
            }
            let reader = client.reader;
            if server.has_ended(client.at) || server.is_ending(client.at) {
                assert!(
                    !session.is_faithful,
                    "reader {reader} kept up and was closed"
                );
                session.go(now);
            } else if session.state == State::Coming && server.sent_bytes(client.at) > 0 {
                let sent = server.sent(client.at);
                let told = String::from_utf8_lossy(&sent);
                assert!(is_served(&sent), "reader {reader} is told: {told}");
                session.come(now);
            }
        }
        self.look_at_presence();
    }

    /// Checks that whoever keeps up has what it must have.
    pub(super) fn judge_owed(&mut self) {
        let server = &self.process.server;
        for client in self.clients.iter_mut().filter(|it| it.session.is_faithful) {
            let sent = server.sent(client.at);
            for number in client.session.owed.drain(..) {
                let text = &self.published[number].text;
                let has = sent.windows(text.len()).any(|it| it == text.as_bytes());
                assert!(has, "reader {} has no {text}", client.reader);
            }
        }
        self.judge_owed_to_processes();
    }
}
