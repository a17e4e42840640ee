//! Numbered ring buffer of edges, for backends.
//!
//! Owns the numbers of edges and the cursors of readers. Must never let the presence thread wait
//! for a reader: a reader that is too slow misses edges, and is told so.

use std::collections::VecDeque;
use std::fmt;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::IdEdge;

/// Receives edges when they enter the ring. Called on the presence thread; must not block.
pub type FeedObserver = dyn Fn(&[IdEdge]) + Send + Sync;

/// Ring buffer of the latest edges. Written by the presence thread, read by the control API.
pub struct Feed {
    capacity: usize,
    epoch: Box<str>,
    ring: Mutex<Ring>,
    observer: OnceLock<Box<FeedObserver>>,
}

#[derive(Debug, Default)]
struct Ring {
    edges: VecDeque<IdEdge>,
    /// Number of edges that were ever pushed: the cursor after the latest one.
    end: u64,
}

/// Edges after a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The edges, oldest first.
    pub edges: Vec<IdEdge>,
    /// The cursor after them, for the next page.
    pub cursor: u64,
    /// Whether edges between the given cursor and these are missing.
    pub reset: bool,
}

/// Reason why edges after a cursor may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedReset {
    /// The cursor is of an earlier run of the server, or of another node.
    Restart,
    /// Edges after the cursor have left the ring.
    Expired,
    /// The text is not a cursor, or this run never issued it.
    Unknown,
}

impl FeedReset {
    /// Returns the name of the reason in the control API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }
}

impl Feed {
    /// Returns an empty ring for at most `capacity` edges. `epoch` identifies this run of the
    /// server.
    pub fn new(capacity: usize, epoch: impl Into<Box<str>>) -> Self {
        Self {
            capacity,
            epoch: epoch.into(),
            ring: Mutex::default(),
            observer: OnceLock::new(),
        }
    }

    /// Returns the epoch, which identifies this run of the server.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Passes all further edges to `observer`, too. Returns false, and does nothing, if there is an
    /// observer already.
    pub fn observe(&self, observer: Box<FeedObserver>) -> bool {
        self.observer.set(observer).is_ok()
    }

    /// Appends edges. The caller leaves out hidden ids, but not ids with many subscribers.
    pub fn push(&self, edges: &[IdEdge]) {
        let mut ring = self.ring.lock();
        ring.edges.extend(edges.iter().cloned());
        ring.end += edges.len() as u64;
        let excess = ring.edges.len().saturating_sub(self.capacity);
        ring.edges.drain(..excess);
        drop(ring);
        if let Some(observer) = self.observer.get() {
            observer(edges);
        }
    }

    /// Returns the cursor after the latest edge.
    pub fn end(&self) -> u64 {
        self.ring.lock().end
    }

    /// Returns at most `limit` edges after `cursor`.
    pub fn after(&self, cursor: u64, limit: usize) -> Page {
        let ring = self.ring.lock();
        let start = ring.end - ring.edges.len() as u64;
        let reset = cursor < start || cursor > ring.end;
        let from = if reset { start } else { cursor };
        let edges: Vec<_> = (ring.edges.iter())
            .skip((from - start) as usize)
            .take(limit)
            .cloned()
            .collect();
        Page {
            cursor: from + edges.len() as u64,
            edges,
            reset,
        }
    }

    /// Formats a cursor as text: epoch and number.
    pub fn cursor_text(&self, cursor: u64) -> String {
        format!("{}-{cursor}", self.epoch)
    }

    /// Parses a cursor that [`Self::cursor_text`] has formatted.
    ///
    /// # Errors
    ///
    /// When edges after the cursor may be missing.
    pub fn resume(&self, text: &str) -> Result<u64, FeedReset> {
        let (epoch, position) = text.rsplit_once('-').ok_or(FeedReset::Unknown)?;
        let cursor: u64 = position.parse().map_err(|_| FeedReset::Unknown)?;
        // A cursor has one spelling: `+7` and `07` are invalid.
        if cursor.to_string() != position || epoch.is_empty() {
            return Err(FeedReset::Unknown);
        }
        if epoch != &*self.epoch {
            return Err(FeedReset::Restart);
        }
        let ring = self.ring.lock();
        let start = ring.end - ring.edges.len() as u64;
        match cursor {
            cursor if cursor > ring.end => Err(FeedReset::Unknown),
            cursor if cursor < start => Err(FeedReset::Expired),
            cursor => Ok(cursor),
        }
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("capacity", &self.capacity)
            .field("epoch", &self.epoch)
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use graph::Id;

    use super::*;

    fn edges(numbers: std::ops::Range<u64>) -> Vec<IdEdge> {
        let edge = |number: u64| IdEdge {
            id: Id::from(number as u32),
            online: number.is_multiple_of(2),
        };
        numbers.map(edge).collect()
    }

    /// Reads to the end in pages of `limit`. Returns the edges and the number of resets.
    fn read(feed: &Feed, mut cursor: u64, limit: usize) -> (Vec<IdEdge>, usize) {
        let (mut found, mut resets) = (Vec::new(), 0);
        loop {
            let page = feed.after(cursor, limit);
            resets += usize::from(page.reset);
            if page.edges.is_empty() {
                return (found, resets);
            }
            found.extend(page.edges);
            cursor = page.cursor;
        }
    }

    #[test]
    fn pages_of_any_size_have_each_edge_once_and_in_order() {
        let feed = Feed::new(100, "e");
        for from in (0..90).step_by(9) {
            feed.push(&edges(from..from + 9));
        }
        for limit in [1, 2, 7, 90, 1_000] {
            for cursor in [0, 1, 45, 90] {
                let expected = (edges(cursor..90), 0);
                assert_eq!(read(&feed, cursor, limit), expected, "{cursor} by {limit}");
            }
        }
        assert_eq!(feed.after(90, 10).cursor, 90);
    }

    #[test]
    fn a_slow_reader_is_reset_to_the_oldest_edge() {
        let feed = Feed::new(10, "e");
        feed.push(&edges(0..25));
        assert_eq!(read(&feed, 14, 4), (edges(15..25), 1));
        assert_eq!(read(&feed, 15, 4), (edges(15..25), 0));
        // A push of more edges than the capacity.
        feed.push(&edges(25..60));
        assert_eq!(read(&feed, 25, 4), (edges(50..60), 1));
        assert_eq!(read(&feed, 61, 4).1, 1, "a cursor from the future");
        assert_eq!(feed.end(), 60);
    }

    #[test]
    fn a_cursor_is_valid_in_its_run_until_edges_after_it_have_left_the_ring() {
        let feed = Feed::new(10, "6u-3k");
        feed.push(&edges(0..25));
        assert_eq!(feed.cursor_text(20), "6u-3k-20");
        for (text, expected) in [
            ("6u-3k-20", Ok(20)),
            ("6u-3k-25", Ok(25)),
            ("6u-3k-15", Ok(15)),
            ("6u-3k-14", Err(FeedReset::Expired)),
            ("6u-3k-26", Err(FeedReset::Unknown)),
            ("other-20", Err(FeedReset::Restart)),
            ("-20", Err(FeedReset::Unknown)),
            ("20", Err(FeedReset::Unknown)),
            ("6u-3k-", Err(FeedReset::Unknown)),
            ("6u-3k-+20", Err(FeedReset::Unknown)),
            ("6u-3k-020", Err(FeedReset::Unknown)),
            ("6u-3k-99999999999999999999", Err(FeedReset::Unknown)),
            ("", Err(FeedReset::Unknown)),
        ] {
            assert_eq!(feed.resume(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_observer_gets_each_edge_once() {
        let feed = Feed::new(3, "e");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&seen);
        feed.push(&edges(0..2));
        assert!(feed.observe(Box::new(move |edges| into.lock().extend_from_slice(edges))));
        assert!(!feed.observe(Box::new(|_| ())), "there is one already");
        feed.push(&edges(2..9));
        feed.push(&edges(9..10));
        assert_eq!(*seen.lock(), edges(2..10));
    }
}
