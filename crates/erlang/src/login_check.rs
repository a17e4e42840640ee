//! Logins of clients that a process decides on: the process's address, and the queue of questions
//! for it.
//!
//! Questions come from the threads of the server's workers, which must never block here.

use std::collections::{HashMap, VecDeque};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reactor::Tick;
use server::{LoginChecker, LoginQuestion, LoginVerdict};

use crate::limits::LOGIN_QUESTIONS_MAX;
use crate::node_name::NodeName;

/// Longest name of a process in bytes: an atom has 255 characters, here ASCII ones.
const PROCESS_NAME_BYTES_MAX: usize = 255;

/// The process that decides on logins, and what to do without its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginCheck {
    /// The process.
    pub process: RegisteredName,
    /// Time limit of an answer.
    pub timeout: Duration,
    /// Whether a client is accepted if there is no answer: after the timeout, without a connection
    /// to the node, or with too many open questions.
    pub accepts_unanswered: bool,
}

/// Name of a process that is registered on a node.
///
/// ```
/// let name: erlang::RegisteredName = "gatekeeper,auth@127.0.0.1".parse().unwrap();
/// assert_eq!((name.name(), name.node().as_str()), ("gatekeeper", "auth@127.0.0.1"));
/// assert!("gatekeeper".parse::<erlang::RegisteredName>().is_err(), "without a node");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredName {
    name: Box<str>,
    node: NodeName,
}

impl RegisteredName {
    /// The name on its node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The node.
    pub const fn node(&self) -> &NodeName {
        &self.node
    }
}

impl FromStr for RegisteredName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let needed = "a process is named by its name and its node, like gatekeeper,auth@127.0.0.1";
        let (name, node) = text.split_once(',').ok_or(needed)?;
        let is_name = (1..=PROCESS_NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_name {
            return Err(needed.to_owned());
        }
        Ok(Self {
            name: name.into(),
            node: node.trim_start().parse()?,
        })
    }
}

/// An unanswered question. It counts as open until it is dropped.
pub(crate) struct OpenQuestion {
    pub(crate) question: LoginQuestion,
    answer: Box<dyn FnOnce(LoginVerdict) + Send>,
    unanswered: LoginVerdict,
    _counted: Arc<()>,
}

/// Queue of questions from the workers to the node's thread.
pub(crate) struct QuestionQueue {
    asked: Mutex<VecDeque<OpenQuestion>>,
    /// Has a clone for each unanswered question, including those already sent to the process.
    open: Arc<()>,
    /// The answer to questions without an answer.
    unanswered: LoginVerdict,
    /// Wakes the thread of the node.
    ring: Box<dyn Fn() + Send + Sync>,
}

impl OpenQuestion {
    /// Answers the question.
    pub(crate) fn answer(self, verdict: LoginVerdict) {
        (self.answer)(verdict);
    }

    /// Answers the question as configured for missing answers.
    pub(crate) fn give_up(self) {
        (self.answer)(self.unanswered);
    }
}

impl QuestionQueue {
    pub(crate) fn new(check: &LoginCheck, ring: Box<dyn Fn() + Send + Sync>) -> Arc<Self> {
        Arc::new(Self {
            asked: Mutex::default(),
            open: Arc::default(),
            unanswered: match check.accepts_unanswered {
                true => LoginVerdict::Accepted,
                false => LoginVerdict::Undecided,
            },
            ring,
        })
    }

    /// Takes the questions that wait to be sent.
    pub(crate) fn take(&self) -> VecDeque<OpenQuestion> {
        std::mem::take(&mut self.asked.lock())
    }
}

/// Questions that wait for the process. Owned by the node's thread.
pub(crate) struct LoginQuestions {
    pub(crate) check: LoginCheck,
    pub(crate) queue: Arc<QuestionQueue>,
    pub(crate) last: u64,
    pub(crate) open: HashMap<u64, OpenQuestion>,
    /// Send time and number of each question, oldest first.
    pub(crate) by_age: VecDeque<(Tick, u64)>,
}

impl LoginQuestions {
    pub(crate) fn new(check: LoginCheck, queue: Arc<QuestionQueue>) -> Self {
        Self {
            check,
            queue,
            last: 0,
            open: HashMap::new(),
            by_age: VecDeque::new(),
        }
    }

    /// Whether there are questions to ask.
    pub(crate) fn has_work(&self) -> bool {
        !self.queue.asked.lock().is_empty()
    }

    /// Returns the time until the oldest question times out.
    pub(crate) fn due_in(&self, now: Tick) -> Option<Duration> {
        let (asked, _) = self.by_age.front()?;
        Some(self.check.timeout.saturating_sub(now.since(*asked)))
    }

    /// Gives up the questions that have timed out.
    pub(crate) fn expire(&mut self, now: Tick, unanswered: &mut u64) {
        while let Some(&(asked, number)) = self.by_age.front()
            && (now.since(asked) >= self.check.timeout || !self.open.contains_key(&number))
        {
            self.by_age.pop_front();
            if let Some(open) = self.open.remove(&number) {
                *unanswered += 1;
                open.give_up();
            }
        }
    }

    /// Gives up all questions.
    pub(crate) fn give_up(&mut self) -> u64 {
        self.by_age.clear();
        let open = std::mem::take(&mut self.open);
        let count = open.len() as u64;
        open.into_values().for_each(OpenQuestion::give_up);
        count
    }
}

/// Checker that asks a process about logins.
pub(crate) struct ProcessChecker(pub(crate) Arc<QuestionQueue>);

impl LoginChecker for ProcessChecker {
    fn ask(&self, question: LoginQuestion, answer: Box<dyn FnOnce(LoginVerdict) + Send>) {
        let queue = &self.0;
        let open_question = OpenQuestion {
            question,
            answer,
            unanswered: queue.unanswered,
            _counted: Arc::clone(&queue.open),
        };
        // One clone is the queue's.
        if Arc::strong_count(&queue.open) - 1 > LOGIN_QUESTIONS_MAX {
            return open_question.give_up();
        }
        queue.asked.lock().push_back(open_question);
        (queue.ring)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_name_and_a_node() {
        let parsed: RegisteredName = "gate,auth@h".parse().unwrap();
        assert_eq!((parsed.name(), parsed.node().as_str()), ("gate", "auth@h"));
        assert_eq!("gate, auth@h".parse(), Ok(parsed));
        for text in [
            "",
            "gate",
            "gate,",
            ",auth@h",
            "gate,auth",
            "g te,auth@h",
            "gäte,a@h",
        ] {
            assert!(text.parse::<RegisteredName>().is_err(), "{text}");
        }
        let named = |bytes| format!("{},auth@h", "x".repeat(bytes)).parse::<RegisteredName>();
        assert!(named(255).is_ok() && named(256).is_err());
    }
}
