//! Where a stream begins: live, or with what its client missed.

use std::borrow::Cow;

use graph::Key;
use history::{Cursor, Gap, History};
use reactor::{Driver, SlotKey};
use router::{Mailboxes, Router};
use wire::frame::{self, Position};
use wire::notice::{Notice, ResetReason};
use wire::start::Start;

use super::replays::Replays;
use crate::frames::push;
use crate::limits::Limits;
use crate::open_session::Session;
use crate::stats::{Metric, WorkerStats};
use crate::table::ConnectionTable;

/// What a request says about the beginning of its stream, and when.
#[derive(Debug)]
pub(crate) struct StartAt<'a> {
    pub(crate) start: Start<'a>,
    /// Head of the history before the session logs in: what is posted later reaches it live, or was
    /// published beside the login.
    pub(crate) head: u64,
}

/// Beginning of a stream, of a server that has a history.
#[derive(Debug)]
pub(crate) struct Resume<'a> {
    /// Text of the cursor that the stream continues from, if it is known.
    pub(crate) from: Option<String>,
    /// Position after which the client may have missed events.
    position: u64,
    /// Why events may be missing before what follows.
    reset: Option<ResetReason>,
    /// The cursor as the client gave it.
    given: Cow<'a, str>,
    feed: Option<Feed>,
    /// Planning period in which the session may go live.
    live_from: u64,
}

/// Positions by which a cursor may be ahead of a node of a cluster: a million entries of the log,
/// which take minutes to apply. A node that is further behind takes no clients; such a cursor is
/// made up.
const BEHIND_MAX: u64 = 1 << 36;

/// Events that a stream begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feed {
    /// Those after a position.
    After(u64),
    /// The last of each subject up to a position, and those after it.
    Rewind { count: u8, until: u64 },
    /// Those after the cursor that the client is to send.
    Awaited,
}

/// What a session begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Live events, or those of the history.
    Stream,
    /// Nothing, until its client has sent a cursor.
    Awaited,
}

impl<'a> StartAt<'a> {
    /// Decides where the stream begins of a session that has just logged in with these keys.
    pub(crate) fn resume<M: Mailboxes>(
        self,
        router: &Router<M>,
        keys: &[Key],
        limits: &Limits,
    ) -> Resume<'a> {
        let head = self.head;
        let at = |position, feed| Resume {
            from: Some(Cursor::complete(router.epoch(), position).to_string()),
            position,
            reset: None,
            given: Cow::Borrowed(""),
            feed,
            // Read after the login: what was planned before it is posted by then.
            live_from: router.period() + 2,
        };
        match self.start {
            Start::Live => at(head, None),
            Start::After(given) => match check(router, &given) {
                Ok(cursor) => Resume {
                    from: Some(cursor.to_string()),
                    ..at(cursor.complete, Some(Feed::After(cursor.complete)))
                },
                Err((reason, floor)) => {
                    let after = after_reset(router, keys, floor, limits);
                    Resume {
                        reset: Some(reason),
                        given,
                        ..at(after, Some(Feed::After(after)))
                    }
                }
            },
            Start::Earliest => {
                let recorder = router.recorder();
                let left = recorder.map_or(head, |recorder| recorder.read(History::left));
                at(left, Some(Feed::After(left)))
            }
            Start::Rewind(count) => at(head, Some(Feed::Rewind { count, until: head })),
            Start::InMessage => Resume {
                from: None,
                ..at(head, Some(Feed::Awaited))
            },
        }
    }
}

impl Resume<'_> {
    /// Returns the position for the welcome of a stream that is live from its beginning. Others
    /// have their own cursor, or are told one by the reset.
    pub(crate) fn welcome_position(&self) -> Option<u64> {
        self.feed.is_none().then_some(self.position)
    }

    /// Appends the notice of a reset, if there is one.
    pub(crate) fn push_reset(&self, session: Session, epoch: &str, out: &mut Vec<u8>) {
        if let Some(reason) = self.reset {
            push_reset(session, epoch, reason, &self.given, self.position, out);
        }
    }

    /// Begins to feed the session, if it is to be fed.
    pub(crate) fn begin<D: Driver>(
        &self,
        table: &mut ConnectionTable<D>,
        replays: &mut Replays,
        key: SlotKey,
    ) -> Begun {
        let live_from = self.live_from;
        match self.feed {
            None => return Begun::Stream,
            Some(Feed::After(after)) => {
                replays.begin_after(table, key, after, live_from);
            }
            Some(Feed::Rewind { count, until }) => {
                replays.begin_rewind(table, key, count, until, live_from);
            }
            Some(Feed::Awaited) => {
                replays.await_cursor(table, key, self.position);
                return Begun::Awaited;
            }
        }
        table.stats.add(outcome(self.reset), 1);
        Begun::Stream
    }

    /// Begins to feed a session whose client has sent its cursor. Without one it gets what was
    /// published since it has logged in.
    pub(crate) fn begin_awaited(&self, stats: &WorkerStats, replays: &mut Replays, key: SlotKey) {
        stats.add(outcome(self.reset), 1);
        let after = match self.feed {
            Some(Feed::After(after)) => after,
            _ => self.position,
        };
        replays.begin_awaited(key, after, self.live_from);
    }
}

/// Returns the metric that counts a resume.
pub(crate) const fn outcome(reset: Option<ResetReason>) -> Metric {
    match reset {
        None => Metric::ResumesComplete,
        Some(ResetReason::Restart) => Metric::ResumesRestart,
        Some(ResetReason::Expired) => Metric::ResumesExpired,
        Some(ResetReason::Unknown) => Metric::ResumesUnknown,
    }
}

/// Checks a client's cursor. The error is why events may be missing, and the position after which
/// the client may have missed some.
pub(crate) fn check<'a, M: Mailboxes>(
    router: &Router<M>,
    text: &'a str,
) -> Result<Cursor<'a>, (ResetReason, u64)> {
    let cursor = Cursor::try_from(text).map_err(|_| (ResetReason::Unknown, 0))?;
    let gap = |history: &History| history.gap(router.epoch(), cursor);
    match router.recorder().and_then(|recorder| recorder.read(gap)) {
        None => Ok(cursor),
        Some(Gap::Unknown) if is_behind(router, cursor) => Ok(cursor),
        Some(Gap::Restart) => Err((ResetReason::Restart, 0)),
        Some(Gap::Expired) => Err((ResetReason::Expired, cursor.complete)),
        Some(Gap::Unknown) => Err((ResetReason::Unknown, 0)),
    }
}

/// Returns whether the client comes from a node of the cluster that has applied more of the log
/// than this one: it misses nothing, and gets nothing until this node has come as far.
fn is_behind<M: Mailboxes>(router: &Router<M>, cursor: Cursor<'_>) -> bool {
    let head = router.head().unwrap_or_default();
    router.follows_log() && cursor.position.saturating_sub(head) <= BEHIND_MAX
}

/// Returns the position after which a session is fed when events after `floor` may be missing: it
/// gets the latest of what there is behind the last gap, and not a flood.
pub(crate) fn after_reset<M: Mailboxes>(
    router: &Router<M>,
    keys: &[Key],
    floor: u64,
    limits: &Limits,
) -> u64 {
    let head = router.head().unwrap_or_default();
    // Events may be stored from before a gap. Whoever were fed these would meet the gap again.
    let left = router.recorder().map_or(0, |it| it.read(History::left));
    let floor = floor.max(left);
    let mut latest = Vec::new();
    router.latest(keys, floor, head, limits.reset_events_max, &mut latest);
    // A concurrent eviction can only shorten what follows, and then says so.
    latest.first().map_or(head, |first| first.position - 1)
}

/// Appends the notice that events may be missing, and the position that the stream continues from.
pub(super) fn push_reset(
    session: Session,
    epoch: &str,
    reason: ResetReason,
    from: &str,
    position: u64,
    out: &mut Vec<u8>,
) {
    let notice = Notice::Reset { reason, from };
    push(out, |out| {
        frame::notice(session.encoding, &notice, out).range(session.framing)
    });
    // After the notice: a client that is cut off between them must be told again.
    let position = Position { epoch, position };
    push(out, |out| {
        frame::position(session.encoding.transport(), position, out).range(session.framing)
    });
}
