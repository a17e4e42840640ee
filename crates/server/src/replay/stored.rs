//! Events of the history, as the encoders take them.

use graph::{Id, Key};
use history::{History, Missed};
use router::{ContentType, Mailboxes, Router};
use wire::event::Event;

use crate::frames::wire_event;

/// Calls `each` with the position of each of these events and the event as the encoders take it,
/// until it returns false. Returns whether it was called with all that the history still has.
pub(crate) fn each_stored<M: Mailboxes>(
    router: &Router<M>,
    history: &History,
    found: &[Missed],
    mut each: impl FnMut(u64, &Event<'_>) -> bool,
) -> bool {
    let mut subject: Option<(Key, Id)> = None;
    for &Missed { place, position } in found {
        // Of a rewind, some may have left since they were found.
        let Some(stored) = history.get(place) else {
            continue;
        };
        let entry = stored.entry;
        if subject.as_ref().is_none_or(|(key, _)| *key != entry.key) {
            let name = router.graph().name(entry.key);
            subject = name.map(|id| (entry.key, id));
        }
        let Some((_, id)) = &subject else {
            continue;
        };
        let event_type = (!entry.event_type.is_empty()).then_some(entry.event_type);
        let content_type = ContentType::of_tag(entry.tag).unwrap_or(ContentType::Binary);
        let at = (router.epoch(), position);
        let event = wire_event(at, id, event_type, content_type, entry.payload);
        if !each(position, &event) {
            return false;
        }
    }
    true
}
