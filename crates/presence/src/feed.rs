//! Edges in a numbered ring, for backends.
//!
//! Owns their numbers and cursors. Must never let the presence thread wait for a reader: who is too
//! slow misses edges, and is told so.

use std::collections::VecDeque;
use std::fmt;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::IdEdge;

/// Receives edges when they enter the ring, on the presence thread: it must not wait.
pub type FeedObserver = dyn Fn(&[IdEdge]) + Send + Sync;

/// Ring of the latest edges. Written by the presence thread, read by the control API.
pub struct Feed {
    capacity: usize,
    epoch: Box<str>,
    ring: Mutex<Ring>,
    observer: OnceLock<Box<FeedObserver>>,
}

#[derive(Debug, Default)]
struct Ring {
    edges: VecDeque<IdEdge>,
    /// Edges that ever were in the ring.
    end: u64,
}

/// Edges after a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The edges, oldest first.
    pub edges: Vec<IdEdge>,
    /// The cursor of the next page.
    pub cursor: u64,
    /// Whether edges are missing before these.
    pub reset: bool,
}

/// Reason why edges after a cursor may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedReset {
    /// It is of an earlier run of the server, or of another node.
    Restart,
    /// Edges after it have left the ring.
    Expired,
    /// It is no cursor, or one that this run never gave.
    Unknown,
}

impl FeedReset {
    /// Returns its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }
}

impl Feed {
    /// Makes a ring of at most `capacity` edges. `epoch` names this run of the server.
    pub fn new(capacity: usize, epoch: impl Into<Box<str>>) -> Self {
        Self {
            capacity,
            epoch: epoch.into(),
            ring: Mutex::default(),
            observer: OnceLock::new(),
        }
    }

    /// Returns the name of this run of the server.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Hands all edges from now on to `observer` as well. Returns whether it is the first one:
    /// there is no other.
    pub fn observe(&self, observer: Box<FeedObserver>) -> bool {
        self.observer.set(observer).is_ok()
    }

    /// Appends edges. Hidden ids are not among them; ids of any number of subscribers are.
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

    /// Returns the cursor behind the latest edge.
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

    /// Writes a cursor as text: epoch and position.
    pub fn cursor_text(&self, cursor: u64) -> String {
        format!("{}-{cursor}", self.epoch)
    }

    /// Reads a cursor that was written by [`Self::cursor_text`].
    ///
    /// # Errors
    ///
    /// When edges after it may be missing.
    pub fn resume(&self, text: &str) -> Result<u64, FeedReset> {
        let (epoch, position) = text.rsplit_once('-').ok_or(FeedReset::Unknown)?;
        let cursor: u64 = position.parse().map_err(|_| FeedReset::Unknown)?;
        // One spelling each: `+7` and `07` are no cursors.
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

    /// Reads to the end in pages of `limit`. Returns the edges, and how often some were missing.
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
    fn who_is_too_late_begins_with_the_oldest_edge_and_is_told() {
        let feed = Feed::new(10, "e");
        feed.push(&edges(0..25));
        assert_eq!(read(&feed, 14, 4), (edges(15..25), 1));
        assert_eq!(read(&feed, 15, 4), (edges(15..25), 0));
        // A push of more than there is room for.
        feed.push(&edges(25..60));
        assert_eq!(read(&feed, 25, 4), (edges(50..60), 1));
        assert_eq!(read(&feed, 61, 4).1, 1, "a cursor from the future");
        assert_eq!(feed.end(), 60);
    }

    #[test]
    fn a_cursor_is_good_in_its_run_while_the_ring_reaches_back_to_it() {
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
