//! Appends that wait for their results.

use std::fmt;

use replication::{AppendError, Applied, Done, Finished, Receipt, Wait};

/// An append whose caller waits. Calls the callback exactly once; with [`AppendError::Unknown`] if
/// it is dropped.
pub(crate) struct Waiting {
    wait: Wait,
    done: Option<Done>,
}

impl Waiting {
    pub(crate) fn new(wait: Wait, done: Done) -> Self {
        let done = Some(done);
        Self { wait, done }
    }

    /// Returns what the caller waits for.
    pub(crate) const fn wait(&self) -> Wait {
        self.wait
    }

    /// Answers an append that counts.
    pub(crate) fn finish(mut self, applied: Applied) {
        self.answer(Ok(applied));
    }

    /// Answers an append that was refused.
    pub(crate) fn refuse(mut self, error: AppendError) {
        self.answer(Err(error));
    }

    fn answer(&mut self, outcome: Result<Applied, AppendError>) {
        if let Some(done) = self.done.take() {
            done(outcome);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.answer(Err(AppendError::Unknown));
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

/// Answers the appends of receipts that are complete or have expired. Call it without holding a
/// lock.
pub(crate) fn complete(receipts: impl IntoIterator<Item = Receipt<Vec<Finished<Waiting>>>>) {
    for receipt in receipts {
        for finished in receipt.token {
            let Finished {
                token,
                first,
                commands,
            } = finished;
            let own = receipt.results.iter().skip(first.index().into());
            token.finish(Applied {
                first,
                results: own.take(commands).cloned().collect(),
                nodes: receipt.nodes,
                missing: receipt.missing.clone(),
            });
        }
    }
}
