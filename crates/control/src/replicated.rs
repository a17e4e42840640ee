//! Publishing and changing through the replicated log of a cluster.
//!
//! Owns the way of a request into the log and of its outcome back. Must never answer for a node
//! that has not been heard, nor call an outcome known that is not.

/// One event on one request.
pub(crate) mod publish;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::StatusCode;
use graph::Id;
use history::Reach;
use replication::{Append, AppendError, Applied, Command, EventRecord, Wait};
use router::Event;
use server::TicketNews;
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use crate::limits::RECEIPT_WAIT;
use crate::problem::{Problem, ProblemType};
use crate::shared::SharedState;
use crate::shared::piece::{Digest, IdentityPiece};

/// The log of a cluster, and the state that its nodes share.
#[derive(Debug, Clone)]
pub struct Replicated {
    /// The log, through which all is published and changed.
    pub log: Arc<dyn Append>,
    /// The state that the node keeps with others. The log hands it what all nodes have appended.
    pub shared: Arc<SharedState>,
}

impl Replicated {
    /// Appends a piece of shared state, and waits until it has taken effect here.
    pub(crate) async fn share(&self, piece: IdentityPiece) -> Result<(), Problem> {
        let applied = append(&*self.log, vec![piece.command()], Wait::Logged).await;
        let applied =
            applied.map_err(|error| Problem::from(error).saying(sentence_of_change(error)))?;
        match self.shared.take_failure(&applied) {
            None => Ok(()),
            Some(error) => Err(error.into()),
        }
    }

    /// Appends what other nodes must know of a ticket. If the log does not take it, other nodes
    /// know it later or never: they let the ticket in, and its sessions there and here are two.
    pub(crate) fn announce(&self, news: TicketNews) {
        let piece = match news {
            TicketNews::Used {
                hash,
                ids,
                issued,
                session,
            } => IdentityPiece::Use {
                ticket: Digest(hash),
                ids: ids.iter().filter_map(|id| Id::parse(id).ok()).collect(),
                issued: issued.0,
                session,
            },
            TicketNews::Released { hash, session } => IdentityPiece::Release {
                ticket: Digest(hash),
                session,
            },
        };
        self.log
            .append(vec![piece.command()], Wait::Logged, Box::new(drop));
    }
}

/// Commands that were handed to the log: a future of what became of them. An outcome that does not
/// come in time is not known.
#[derive(Debug)]
pub(crate) struct Appending {
    outcome: oneshot::Receiver<Result<Applied, AppendError>>,
    late: Pin<Box<Sleep>>,
}

/// Hands commands to the log, behind those that were handed to it before.
pub(crate) fn append(log: &dyn Append, commands: Vec<Command>, wait: Wait) -> Appending {
    let (sender, outcome) = oneshot::channel();
    let done = Box::new(|result| {
        // The client may have gone; what it asked for is done all the same.
        let _ = sender.send(result);
    });
    log.append(commands, wait, done);
    Appending {
        outcome,
        late: Box::pin(sleep(RECEIPT_WAIT)),
    }
}

impl Future for Appending {
    type Output = Result<Applied, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(outcome) = Pin::new(&mut self.outcome).poll(context) {
            // A log that ends without an answer may have appended them.
            return Poll::Ready(outcome.unwrap_or(Err(AppendError::Unknown)));
        }
        let late = self.late.as_mut().poll(context);
        late.map(|()| Err(AppendError::Unknown))
    }
}

/// Returns the command that publishes an event.
pub(crate) fn command(event: &Event, reach: Reach, is_stored: bool) -> Command {
    let (tag, payload) = event.payload.to_tagged();
    let event_type = event.event_type.as_ref().map_or("", |kind| kind.as_str());
    Command::Event(EventRecord {
        subject: event.subject.clone(),
        reach,
        is_stored,
        tag,
        event_type: event_type.into(),
        payload,
    })
}

/// Returns the status of the answer to a request that the log has not taken.
pub(crate) const fn status(error: AppendError) -> StatusCode {
    match error {
        AppendError::Unavailable { .. } | AppendError::Full => StatusCode::SERVICE_UNAVAILABLE,
        AppendError::Unknown => StatusCode::GATEWAY_TIMEOUT,
        AppendError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
    }
}

/// Returns what a publisher is told whose event the log has not taken. `has_key` tells whether its
/// request has an idempotency key.
pub(crate) fn sentence(error: AppendError, has_key: bool) -> String {
    match error {
        AppendError::Unknown if !has_key => "the log of the cluster did not confirm this in time; \
             it may still take effect, and twice if it is sent again; requests with an \
             Idempotency-Key take effect once"
            .to_owned(),
        _ => error.to_string(),
    }
}

/// Returns the error text for changes that the log has not accepted.
pub(crate) fn sentence_of_change(error: AppendError) -> String {
    match error {
        AppendError::Unknown => "the log of the cluster did not confirm this in time; it may \
             still take effect, and does no harm if it is sent again"
            .to_owned(),
        _ => error.to_string(),
    }
}

impl From<AppendError> for Problem {
    fn from(error: AppendError) -> Self {
        let problem = Self::new(status(error), error.to_string());
        match error {
            AppendError::Unavailable { retry_after } => {
                let seconds = retry_after.as_secs().max(1);
                problem
                    .with_retry_after(seconds)
                    .of_type(ProblemType::LogUnavailable)
            }
            AppendError::Full => problem
                .with_retry_after(1)
                .of_type(ProblemType::LogUnavailable),
            AppendError::Unknown | AppendError::TooLarge { .. } => problem,
        }
    }
}
