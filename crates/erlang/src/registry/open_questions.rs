//! Questions about logins that wait for the process that decides.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use reactor::Tick;

use crate::login_check::{LoginCheck, OpenQuestion, QuestionQueue};

/// Questions that wait for the process.
pub(crate) struct LoginQuestions {
    pub(super) check: LoginCheck,
    pub(super) queue: Arc<QuestionQueue>,
    pub(super) last: u64,
    pub(super) open: HashMap<u64, OpenQuestion>,
    /// Send time and number of each question, oldest first.
    pub(super) by_age: VecDeque<(Tick, u64)>,
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
        !self.queue.is_empty()
    }

    /// Returns the time until the oldest question times out.
    pub(crate) fn due_in(&self, now: Tick) -> Option<Duration> {
        let (asked, _) = self.by_age.front()?;
        Some(self.check.timeout.saturating_sub(now.since(*asked)))
    }

    /// Gives up the questions that have timed out.
    pub(super) fn expire(&mut self, now: Tick, unanswered: &mut u64) {
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
    pub(super) fn give_up(&mut self) -> u64 {
        self.by_age.clear();
        let open = std::mem::take(&mut self.open);
        let count = open.len() as u64;
        open.into_values().for_each(OpenQuestion::give_up);
        count
    }
}
