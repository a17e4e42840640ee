//! History: the latest events of all subjects, and the search for those that a returning client
//! missed.
//!
//! Events are stored once, in the order of their positions, in a ring of segments in memory. Each
//! record has a link to the previous event of its subject, so missed events are found without a
//! list for each session. Must never know a transport, a session or a clock: the time is an
//! argument.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Cursors: positions in the history, stored by clients.
mod cursor;
/// Records: events as bytes.
mod record;
/// The ring of segments that holds the records.
mod segments;
/// The index: the latest record of each subject.
mod index;
/// The history: records, and how long they stay.
mod history;
/// Search for the events that a session missed.
mod missed;

pub use cursor::{Cursor, CursorError};
pub use history::{Counts, Gap, History, Limits};
pub use missed::{Followed, Missed};
pub use record::{EVENT_BYTES_MAX, Entry, Reach, Stored};
pub use segments::Place;
