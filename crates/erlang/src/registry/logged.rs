//! Events that processes publish through the log of a cluster.

use ::router::{Event, Mailboxes};
use history::Reach;
use replication::Append;

use super::ProcessRegistry;
use super::router::TOO_MANY_CALLS;
use crate::connections::ConnectionId;
use crate::metrics::Metric;
use crate::pending_calls::PendingCall;
use crate::replicated;
use crate::term::Raw;

impl<M: Mailboxes> ProcessRegistry<M> {
    /// Appends an event to the log. A caller is answered when every node has reported its receipt.
    /// A cast has no caller, and is counted if it fails.
    ///
    /// # Errors
    ///
    /// When too many calls and casts are waiting. The error is a sentence for the caller.
    pub(super) fn log_event(
        &mut self,
        log: &dyn Append,
        connection: ConnectionId,
        event: &Event,
        reach: Reach,
        from: Option<Raw<'_>>,
    ) -> Result<(), &'static str> {
        if self.calls.is_full() {
            self.metrics.add(Metric::LogFailures, 1);
            return Err(TOO_MANY_CALLS);
        }
        let call = self.calls.logged(PendingCall {
            connection,
            from: from.map(|from| from.bytes().into()),
            id_terms: Vec::new(),
            list: None,
        });
        replicated::append_event(log, event, reach, &call);
        Ok(())
    }
}
