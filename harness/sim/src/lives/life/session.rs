//! What the model knows of sessions: of connections of readers, and of processes of Erlang nodes.

use std::collections::BTreeSet;

use server::sim::ClientState as State;

use super::Life;
use super::nodes::Node;

/// What is known of a session.
pub(super) struct Session {
    pub(super) ids: BTreeSet<&'static str>,
    /// It has read everything at once, and stays.
    pub(super) is_faithful: bool,
    pub(super) state: State,
    /// The model's time when it was seen to be online, and to be gone.
    pub(super) online: Option<u64>,
    pub(super) gone: Option<u64>,
    /// Numbers of events that it must have when the workers are at rest.
    pub(super) owed: Vec<usize>,
}

/// How many sessions and ids an event was for that were online, at least and at most.
#[derive(Debug)]
pub(super) struct Bounds {
    pub(super) sessions: [u64; 2],
    /// Those that surely have it, as their sockets take everything.
    pub(super) written: u64,
    pub(super) online: [u64; 2],
}

impl Session {
    /// A session that comes.
    pub(super) const fn coming(ids: BTreeSet<&'static str>, is_faithful: bool) -> Self {
        Self {
            ids,
            is_faithful,
            state: State::Coming,
            online: None,
            gone: None,
            owed: Vec::new(),
        }
    }

    pub(super) const fn come(&mut self, now: u64) {
        (self.state, self.online) = (State::Online, Some(now));
    }

    pub(super) const fn leave(&mut self) {
        (self.state, self.is_faithful) = (State::Leaving, false);
    }

    pub(super) const fn go(&mut self, now: u64) {
        (self.state, self.gone) = (State::Gone, Some(now));
    }

    /// Whether it was online all the time since `begun`.
    fn was_online(&self, begun: u64) -> bool {
        self.state == State::Online && self.online.is_some_and(|online| online < begun)
    }

    /// Whether it may have been online at a time since `begun`.
    fn may_be_online(&self, begun: u64) -> bool {
        self.gone.is_none_or(|gone| gone >= begun)
    }
}

impl Life {
    /// All sessions of this process of the server.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &Session> + Clone {
        let processes = self.nodes.iter().flat_map(|it| it.sessions());
        self.clients.iter().map(|it| &it.session).chain(processes)
    }

    /// Returns how many were online of those that an event is for, which was asked to be published
    /// at `begun`.
    pub(super) fn bounds(&self, number: usize) -> Bounds {
        let [sure, possible] = self.readers_of(number);
        let begun = self.published[number].begun;
        let count = |ids: &BTreeSet<&str>, is_there: &dyn Fn(&Session) -> bool| {
            let sessions = self
                .sessions()
                .filter(|it| is_there(it) && !it.ids.is_disjoint(ids));
            let online: BTreeSet<_> = sessions.clone().flat_map(|it| &it.ids).collect();
            let online = online.into_iter().filter(|it| ids.contains(*it));
            (sessions.count() as u64, online.count() as u64)
        };
        let least = count(&sure, &|it| it.was_online(begun));
        let most = count(&possible, &|it| it.may_be_online(begun));
        let written = count(&sure, &|it| it.is_faithful && it.was_online(begun));
        Bounds {
            sessions: [least.0, most.0],
            written: written.0,
            online: [least.1, most.1],
        }
    }

    /// Notes who must have an event that was published.
    pub(super) fn owe(&mut self, number: usize) {
        let [sure, _] = self.readers_of(number);
        let begun = self.published[number].begun;
        let processes = self.nodes.iter_mut().flat_map(Node::sessions_mut);
        let clients = self.clients.iter_mut().map(|it| &mut it.session);
        for session in clients.chain(processes) {
            let is_for = !session.ids.is_disjoint(&sure);
            if session.is_faithful && session.was_online(begun) && is_for {
                session.owed.push(number);
            }
        }
    }
}
