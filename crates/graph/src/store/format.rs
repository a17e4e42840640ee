//! Formats of the file of a graph.

/// Format of a graph that follows no log. A change of the tables below needs another number.
pub(crate) const FORMAT: u64 = 1;

/// Older format of a graph that has its position in a replicated log, but not the rows of the state
/// that nodes share. It is read, but no longer written except in copies.
pub(crate) const FORMAT_OF_LOG_WITHOUT_ROWS: u64 = 2;

/// Format of a graph that has its position in a replicated log. A number of its own keeps older
/// programs from changing edges without the position and the rows.
pub(crate) const FORMAT_OF_LOG: u64 = 3;
