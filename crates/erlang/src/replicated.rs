//! Events and changes through the replicated log of a cluster of servers.
//!
//! Appends the commands of a call to the log and returns the outcome. Must never report an unknown
//! outcome as known.

use std::mem;
use std::sync::Arc;

use graph::{Change, GraphError};
use history::Reach;
use parking_lot::Mutex;
use replication::{Append, AppendError, Applied, Command, CommandResult, EventRecord, Wait};
use router::{Counts, Event};

use crate::limits::{LOGGED_BYTES_MAX, LOGGED_CHANGES_MAX};
use crate::pending_calls::Completion;

/// The outcome that a call waits for.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The receipt of an event.
    Receipt(Counts),
    /// The result of all changes.
    Changes(Result<(), GraphError>),
    /// The log of the cluster has refused the event or some of the changes.
    NotLogged(AppendError),
}

/// Call whose commands are being appended to the log, possibly in several parts. Completed when the
/// last part is dropped.
pub(crate) struct LoggedCall {
    outcome: Mutex<Outcome>,
    completion: Completion,
}

/// Part of a call. If it is dropped without an answer, the outcome is unknown.
struct Part {
    call: Arc<LoggedCall>,
    is_answered: bool,
}

impl LoggedCall {
    pub(crate) const fn new(completion: Completion) -> Self {
        Self {
            outcome: Mutex::new(Outcome::Changes(Ok(()))),
            completion,
        }
    }

    /// Records the outcome of a part. Of several failures the first is kept.
    fn record(&self, result: Result<Applied, AppendError>) {
        let mut outcome = self.outcome.lock();
        if matches!(*outcome, Outcome::NotLogged(_) | Outcome::Changes(Err(_))) {
            return;
        }
        match result {
            Err(error) => *outcome = Outcome::NotLogged(error),
            Ok(applied) => {
                for result in applied.results {
                    match result {
                        CommandResult::Event {
                            written,
                            queued,
                            shed,
                            ..
                        } => {
                            *outcome = Outcome::Receipt(Counts {
                                written,
                                queued,
                                shed,
                            })
                        }
                        CommandResult::Change(Err(error)) => {
                            *outcome = Outcome::Changes(Err(error));
                            return;
                        }
                        CommandResult::Change(Ok(_)) | CommandResult::None => {}
                    }
                }
            }
        }
    }
}

impl Drop for LoggedCall {
    fn drop(&mut self) {
        let outcome = mem::replace(self.outcome.get_mut(), Outcome::Changes(Ok(())));
        self.completion.complete(outcome);
    }
}

impl Part {
    fn append(log: &dyn Append, commands: Vec<Command>, wait: Wait, call: &Arc<LoggedCall>) {
        let mut part = Self {
            call: Arc::clone(call),
            is_answered: false,
        };
        let done = Box::new(move |result| {
            part.call.record(result);
            part.is_answered = true;
        });
        log.append(commands, wait, done);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_answered {
            self.call.record(Err(AppendError::Unknown));
        }
    }
}

/// Appends an event to the log.
pub(crate) fn append_event(log: &dyn Append, event: &Event, reach: Reach, call: &Arc<LoggedCall>) {
    let (tag, payload) = event.payload.to_tagged();
    let event_type = event.event_type.as_ref().map_or("", |kind| kind.as_str());
    let record = EventRecord {
        subject: event.subject.clone(),
        reach,
        is_stored: true,
        tag,
        event_type: event_type.into(),
        payload,
    };
    Part::append(log, vec![Command::Event(record)], Wait::Delivered, call);
}

/// Appends changes to the log, in order and in parts.
pub(crate) fn append_changes(log: &dyn Append, changes: Vec<Change>, call: &Arc<LoggedCall>) {
    let (mut part, mut bytes) = (Vec::new(), 0);
    for change in changes {
        let command = Command::Change(change);
        let more = command.encoded_bytes();
        if part.len() >= LOGGED_CHANGES_MAX || bytes + more > LOGGED_BYTES_MAX {
            Part::append(log, mem::take(&mut part), Wait::Logged, call);
            bytes = 0;
        }
        bytes += more;
        part.push(command);
    }
    if !part.is_empty() {
        Part::append(log, part, Wait::Logged, call);
    }
}

/// Returns the error for a caller whose event or changes the log has refused or not confirmed.
pub(crate) fn sentence(error: AppendError) -> String {
    match error {
        AppendError::Unknown => "the log of the cluster did not confirm this in time; it may \
             still take effect; it is safe to make changes again"
            .to_owned(),
        _ => error.to_string(),
    }
}
