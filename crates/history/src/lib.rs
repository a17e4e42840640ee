//! History: the latest events of all subjects, and what a returning client missed.
//!
//! Events are stored once, in the order of their positions, in a ring of segments in memory. Each
//! record has a link to the previous event of its subject, so a session finds what it missed
//! without a list of its own. Must never know a transport, a session or a clock: the time is an
//! argument.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Cursors: positions in the history, as clients keep them.
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
