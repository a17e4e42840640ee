//! Logins that a program outside is asked about, beyond what identity decides.
//!
//! Owns which requests and which messages of WebSocket sessions wait for an answer. Must never wait
//! itself: the checker answers later, from its own thread, within its own time limit.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use graph::Id;
use reactor::SlotKey;

use crate::limits::Limits;
use crate::stage::Stage;

/// A login to decide on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginQuestion {
    /// The ids that the client wants to read; at least one. Of a WebSocket session that is open
    /// already, those that are new.
    pub ids: Vec<Id>,
    /// Name of the transport, as in reports on sessions.
    pub transport: &'static str,
    /// Address of the client. Of a WebSocket session that is open already, that of its connection.
    pub address: Option<IpAddr>,
    /// Who the client has proved to be, where an identity is needed.
    pub subject: Option<String>,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginVerdict {
    /// The client may read the ids.
    Accepted,
    /// It may not.
    Refused,
    /// Nobody has decided: the client may ask again later.
    Undecided,
}

/// Who decides on logins.
pub trait LoginChecker: Send + Sync {
    /// Asks about a login. It is called on the threads of the workers and must return at once.
    /// `answer` is called once, on any thread, within 4 seconds; at once if too many questions are
    /// open.
    fn ask(&self, question: LoginQuestion, answer: Box<dyn FnOnce(LoginVerdict) + Send>);
}

/// The logins of a worker that wait for a decision.
#[derive(Debug, Default)]
pub(crate) struct LoginChecks {
    last: u64,
    /// Requests that wait, and their questions.
    requests: HashMap<SlotKey, (u64, LoginQuestion)>,
    /// Requests whose answer has come. It holds for the same question on the same connection, once.
    answered: HashMap<SlotKey, (LoginQuestion, LoginVerdict)>,
    /// Requests that are handled again. Some may be closed by now.
    released: VecDeque<SlotKey>,
    /// Ids that WebSocket sessions want to follow too.
    subscribes: HashMap<SlotKey, Vec<(u64, Vec<Id>)>>,
    subscribing: usize,
}

impl Stage for LoginChecks {
    fn has_work(&self) -> bool {
        !self.released.is_empty()
    }

    fn forget(&mut self, key: SlotKey) {
        self.requests.remove(&key);
        self.answered.remove(&key);
        if let Some(subscribes) = self.subscribes.remove(&key) {
            self.subscribing -= subscribes.len();
        }
    }
}

impl LoginChecks {
    /// Returns whether another question may be asked.
    fn has_room(&self, limits: &Limits) -> bool {
        let requests = self.requests.len() + self.answered.len() + self.released.len();
        requests + self.subscribing < limits.login_checks_max
    }

    const fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Takes the answer to the question of a request.
    pub(crate) fn take(&mut self, key: SlotKey, question: &LoginQuestion) -> Option<LoginVerdict> {
        let (asked, verdict) = self.answered.remove(&key)?;
        (asked == *question).then_some(verdict)
    }

    /// Adds a request that waits. Returns the number of its question; `None` if too many wait.
    pub(crate) fn add_request(
        &mut self,
        key: SlotKey,
        question: &LoginQuestion,
        limits: &Limits,
    ) -> Option<u64> {
        if !self.has_room(limits) {
            return None;
        }
        let number = self.next();
        self.requests.insert(key, (number, question.clone()));
        Some(number)
    }

    /// Adds ids that an open session wants to follow. Returns the number of the question; `None` if
    /// too many wait.
    pub(crate) fn add_subscribe(
        &mut self,
        key: SlotKey,
        ids: &[Id],
        limits: &Limits,
    ) -> Option<u64> {
        let own = self.subscribes.get(&key).map_or(0, Vec::len);
        if !self.has_room(limits) || own >= limits.subscribe_checks_max {
            return None;
        }
        let number = self.next();
        let subscribes = self.subscribes.entry(key).or_default();
        subscribes.push((number, ids.to_vec()));
        self.subscribing += 1;
        Some(number)
    }

    /// Takes an answer. Returns the ids that an open session wanted to follow, if it is about
    /// those.
    pub(crate) fn answer(
        &mut self,
        key: SlotKey,
        number: u64,
        verdict: LoginVerdict,
    ) -> Option<Vec<Id>> {
        if let Some((asked, _)) = self.requests.get(&key)
            && *asked == number
            && let Some((_, question)) = self.requests.remove(&key)
        {
            self.answered.insert(key, (question, verdict));
            self.released.push_back(key);
            return None;
        }
        let subscribes = self.subscribes.get_mut(&key)?;
        let at = subscribes.iter().position(|(asked, _)| *asked == number)?;
        let (_, ids) = subscribes.remove(at);
        if subscribes.is_empty() {
            self.subscribes.remove(&key);
        }
        self.subscribing -= 1;
        Some(ids)
    }

    /// Returns whether a request waits.
    pub(crate) fn is_waiting(&self, key: SlotKey) -> bool {
        self.requests.contains_key(&key)
    }

    /// Takes the requests that go on in this turn.
    pub(crate) fn take_released(&mut self, limits: &Limits) -> Vec<SlotKey> {
        let count = self.released.len().min(limits.checked_logins_per_turn);
        self.released.drain(..count).collect()
    }

    /// Forgets the answer of a request that was handled again.
    pub(crate) fn forget_answer(&mut self, key: SlotKey) {
        self.answered.remove(&key);
    }

    /// Returns whether nothing is kept.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn is_empty(&self) -> bool {
        let requests = self.requests.len() + self.answered.len();
        requests + self.subscribes.len() + self.subscribing == 0
    }
}
