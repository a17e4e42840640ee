//! The writer without its thread.

use super::Work;

impl Work {
    /// Does what the thread does each time, and waits for nothing; false if there is nothing to do.
    pub(crate) fn step(&mut self) -> bool {
        let (submissions, ended) = self.queue.take_now();
        let is_idle = submissions.is_empty() && !self.is_busy();
        if !is_idle {
            self.note(submissions, ended);
            self.commit();
        }
        !is_idle
    }
}
