//! Who is online, and what clients are told of it.

use std::collections::{BTreeMap, BTreeSet};

use server::sim::{ClientState as State, Notice, notices};

use super::session::Session;
use super::{Life, NAMES};
use crate::lives::process::PRESENCE_DELAY;

/// Milliseconds between two looks of the presence thread.
const TICK: u64 = 100;

/// What is known of who was online, and when.
#[derive(Default)]
pub(super) struct Attendance {
    by_name: BTreeMap<&'static str, Attended>,
    /// Milliseconds of the process.
    now: u64,
    /// Looks of the presence thread so far.
    ticks: u64,
}

#[derive(Default)]
struct Attended {
    /// When it was online last, surely and possibly.
    surely: Option<u64>,
    possibly: Option<u64>,
    /// The last look at which its going, and its coming, could be told.
    gone_at: Option<u64>,
    here_at: Option<u64>,
}

/// What a client was told.
#[derive(Default)]
pub(super) struct Told {
    online: BTreeSet<String>,
    /// At which look it was told last of an id.
    at: BTreeMap<String, u64>,
    /// Looks that there had been when it came.
    since: u64,
    notices: usize,
    bytes: usize,
}

impl Told {
    pub(super) fn since(attendance: &Attendance) -> Self {
        Self {
            since: attendance.ticks,
            ..Self::default()
        }
    }

    fn take(&mut self, notice: Notice, attendance: &Attendance) -> Result<(), String> {
        match notice {
            Notice::Snapshot { online, is_first } => {
                for id in &online {
                    attendance.allows(id, true, self.since)?;
                }
                if is_first {
                    self.online.clear();
                }
                self.online.extend(online);
            }
            Notice::Edge { id, is_online } => {
                let last = self.at.insert(id.clone(), attendance.ticks);
                attendance.allows(&id, is_online, last.unwrap_or(self.since))?;
                match is_online {
                    true => self.online.insert(id),
                    false => self.online.remove(&id),
                };
            }
        }
        Ok(())
    }
}

impl Attendance {
    /// Returns why an id must not be told to have come or gone, if it was not so at a look since
    /// another one.
    fn allows(&self, id: &str, is_online: bool, since: u64) -> Result<(), String> {
        let attended = self
            .by_name
            .get(id)
            .ok_or_else(|| format!("{id} is nobody"))?;
        let at = match is_online {
            true => attended.here_at,
            false => attended.gone_at,
        };
        // What was told then may have been found out at the look before.
        let is_true = at.is_some_and(|at| at + 1 >= since);
        is_true
            .then_some(())
            .ok_or_else(|| format!("{id} is told to be online: {is_online}, since look {since}"))
    }

    /// Notes who is online now.
    fn look<'a>(&mut self, sessions: impl Iterator<Item = &'a Session> + Clone) {
        for name in NAMES {
            let mut own = sessions.clone().filter(|it| it.ids.contains(name));
            let is_sure = own.clone().any(|it| it.state == State::Online);
            let may_be = own.any(|it| it.state != State::Gone);
            let attended = self.by_name.entry(name).or_default();
            attended.surely = is_sure.then_some(self.now).or(attended.surely);
            attended.possibly = may_be.then_some(self.now).or(attended.possibly);
        }
    }

    /// The presence thread looks who is there.
    fn tick(&mut self) {
        self.ticks += 1;
        let delay = PRESENCE_DELAY.as_millis() as u64;
        for attended in self.by_name.values_mut() {
            let since = |at: Option<u64>| at.map_or(u64::MAX, |at| self.now - at);
            if since(attended.surely).saturating_add(TICK) >= delay {
                attended.gone_at = Some(self.ticks);
            }
            if since(attended.possibly) <= delay + 3 * TICK {
                attended.here_at = Some(self.ticks);
            }
        }
    }

    /// Whether an id is online, if that has been so for long enough to be told.
    fn settled(&self, name: &str) -> Option<bool> {
        let attended = self.by_name.get(name)?;
        let delay = PRESENCE_DELAY.as_millis() as u64;
        match (attended.surely, attended.possibly) {
            (Some(at), _) if at == self.now => Some(true),
            (_, Some(at)) if self.now - at <= delay + 3 * TICK => None,
            _ => Some(false),
        }
    }
}

impl Life {
    /// Time passes for those who look who is online.
    pub(super) fn tick_presence(&mut self) {
        self.attendance.now += TICK;
        self.look_who_is_online();
        self.attendance.tick();
        self.process.server.tick_presence();
    }

    /// Notes who is online.
    pub(super) fn look_who_is_online(&mut self) {
        let mut attendance = std::mem::take(&mut self.attendance);
        attendance.look(self.sessions());
        self.attendance = attendance;
    }

    /// Notes who is online, and checks what clients are told of it.
    pub(super) fn look_at_presence(&mut self) {
        self.look_who_is_online();
        let server = &self.process.server;
        for client in &mut self.clients {
            let told = &mut client.told;
            if !self.readers[client.reader].asks_presence
                || told.bytes == server.sent_bytes(client.at)
            {
                continue;
            }
            let sent = server.sent(client.at);
            told.bytes = sent.len();
            for notice in notices(&sent).into_iter().skip(told.notices) {
                told.notices += 1;
                if let Err(why) = told.take(notice, &self.attendance) {
                    panic!("reader {}: {why}", client.reader);
                }
            }
        }
    }

    /// Checks that whoever asks knows who of those that it follows is online, and nothing else.
    pub(super) fn judge_presence(&self) {
        for client in &self.clients {
            let asks = self.readers[client.reader].asks_presence;
            if !asks || client.session.state != State::Online {
                continue;
            }
            for name in NAMES {
                let follows = client.session.ids.iter().filter(|it| **it != name);
                let mut follows = follows.map(|&id| self.edges.known((id, name)));
                let is_told = client.told.online.contains(name);
                let is_followed = match client.session.ids.contains(name) {
                    true => Some(false),
                    false if follows.clone().any(|it| it == Some(true)) => Some(true),
                    false if follows.all(|it| it == Some(false)) => Some(false),
                    false => None,
                };
                let is_online = self.attendance.settled(name);
                let expected = match (is_followed, is_online) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                };
                assert!(
                    expected.is_none_or(|it| it == is_told),
                    "reader {}, of {:?}, takes {name} for online: {is_told}",
                    client.reader,
                    client.session.ids
                );
            }
        }
    }
}
