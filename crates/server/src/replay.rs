//! Replay: sessions that are fed from the history until they are live.
//!
//! Owns how far each of them is. A session that returns logs in first. While it is fed, live events
//! for it are held: the history has them. When everything up to the head is sent, and the
//! publishers that planned their events before the login have posted them, the session goes live at
//! that head. Live events up to there that are still on their way through the worker were replayed
//! and are dropped.
//!
//! A session that cannot be fed, as its socket is full, is deferred after some events that it held:
//! the router plans no further ones for it. Before it is fed again it is treated as at its login.

/// How far each session is.
mod replays;
/// Where a stream begins: live, after a cursor, or after a reset.
mod resume;
/// Events of the history, as the encoders take them.
mod stored;
/// Searches for what sessions missed, kept from step to step.
mod searches;
/// Changes between live and fed.
mod catch_up;
/// A step of feeding a session.
mod feed;
/// Clients that come from a node that was further in the log.
mod ahead;
/// Sessions for which no events are planned while they cannot be sent any.
mod deferred;

pub(crate) use deferred::{defer_behind, undefer};
pub(crate) use feed::{Feeder, advance_period};
pub(crate) use replays::{LiveEvent, Replays};
pub(crate) use resume::{Begun, Resume, StartAt, after_reset, check, outcome};
pub(crate) use stored::each_stored;
