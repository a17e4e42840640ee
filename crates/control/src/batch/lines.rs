//! The lines of a batch whose events its caller may publish.

use router::Event;

use super::line;
use crate::caller::Caller;
use crate::stream::Stream;

/// The lines of a batch. Owned by the batch.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) stream: Stream,
    pub(super) caller: Caller,
    pub(super) event_bytes_max: usize,
    /// Whether the history is to store their events.
    pub(super) is_stored: bool,
}

impl Lines {
    /// Returns the number of the next line at hand, and its event if the caller may publish it, or
    /// the sentence that says why there is none.
    pub(super) fn next(&mut self) -> Option<(u64, Result<Event, String>)> {
        let item = match self.stream.items.next()? {
            Ok(item) => item,
            Err((number, fault)) => return Some((number, Err(fault.to_string()))),
        };
        let caller = &self.caller;
        let allowed = |event: Event| caller.refusal_of_id(&event.subject).map_or(Ok(event), Err);
        let event = line::event(&item, self.event_bytes_max).and_then(allowed);
        Some((item.number, event))
    }
}
