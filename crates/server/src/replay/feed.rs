//! A step of feeding a session: what it missed next, encoded straight from the history.

use history::{Cursor, Missed};
use reactor::{Driver, SlotKey};
use router::{Mailboxes, Router};
use wire::event::Event;
use wire::frame;
use wire::notice::ResetReason;

use super::deferred::undefer;
use super::replays::{Replay, Stage};
use super::resume::{after_reset, outcome, push_reset};
use super::searches::Searches;
use super::stored::each_stored;
use crate::frames::push;
use crate::limits::{Limits, SCRATCH_KEPT_BYTES};
use crate::open_session::Session;
use crate::session::Sessions;
use crate::stage;
use crate::stats::Metric;
use crate::table::{ConnectionTable, KeptFrame, Phase};

/// Working memory of the steps of one worker.
#[derive(Debug)]
pub(crate) struct Feeder {
    searches: Searches,
    missed: Vec<Missed>,
    bytes: Vec<u8>,
    frames: Vec<KeptFrame>,
}

impl stage::Stage for Feeder {
    fn trim(&mut self) {
        if self.bytes.capacity() > SCRATCH_KEPT_BYTES {
            self.missed = Vec::new();
            self.bytes = Vec::new();
            self.frames = Vec::new();
        }
    }

    fn forget(&mut self, key: SlotKey) {
        self.searches.retain(|searched| searched != key);
    }
}

impl Feeder {
    pub(crate) const fn new(limits: &'static Limits) -> Self {
        Self {
            searches: Searches::new(limits),
            missed: Vec::new(),
            bytes: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Returns the memory of the searches that are kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.searches.bytes()
    }

    /// Drops the searches that are kept. They are made again when they are needed.
    pub(crate) fn drop_searches(&mut self) {
        self.searches.retain(|_| false);
    }

    /// Feeds a session once, as far as its socket takes it and one step goes. Returns the number of
    /// bytes that were made for it.
    pub(crate) fn feed<D: Driver, M: Mailboxes>(
        &mut self,
        table: &mut ConnectionTable<D>,
        sessions: &mut Sessions,
        router: &Router<M>,
        key: SlotKey,
    ) -> usize {
        let (Some(connection), Some(&replay)) = (table.get(key), sessions.replays.get(key)) else {
            return 0;
        };
        let Phase::Open(session) = connection.phase else {
            return 0;
        };
        // A blocked session is fed when its socket has taken the backlog.
        if connection.blocked || !replay.stage.is_fed() {
            return 0;
        }
        if replay.is_deferred {
            undefer(table, sessions, router, key);
        }
        let Some(&replay) = sessions.replays.get(key) else {
            return 0;
        };
        let keys = sessions.keys(key.index, &session);
        // In this order: what was planned before the login and posted since is below the head.
        let may_go_live = advance_period(router) >= replay.stage.live_from();
        let head = router.head().unwrap_or_default();
        let fed = replay.fed;
        let (last, more) = match replay.stage {
            Stage::Rewind { count, until, .. } => {
                let (count, missed) = (usize::from(count), &mut self.missed);
                let count_max = table.limits.replay_events_per_step;
                let more = router.rewind(keys, fed, until, count, count_max, missed);
                (until, more)
            }
            Stage::Missed { .. } | Stage::InFlight { .. } | Stage::Awaited | Stage::Live => {
                let missed = &mut self.missed;
                (
                    head,
                    self.searches.search(router, key, keys, fed, head, missed),
                )
            }
        };
        // Everything up to here is among what was found.
        let through = self.missed.last().map_or(fed, |missed| missed.position);
        if more && matches!(replay.stage, Stage::Missed { .. }) {
            router.retain_concerning(keys, fed, &mut self.missed);
        }
        let Some(is_whole) = self.encode(router, &replay, session) else {
            return self.reset(table, sessions, router, key, session, fed);
        };
        let begun = table.send_kept(key, &self.bytes, &self.frames);
        let Some(connection) = table.get(key) else {
            return self.bytes.len();
        };
        let is_blocked = connection.blocked;
        table.stats.add(Metric::EventsReplayed, begun as u64);
        let is_sent = is_whole && begun == self.frames.len();
        let is_done = is_sent && !more;
        let begun = &self.frames[..begun];
        let Some(progress) = sessions.replays.get_mut(key) else {
            return self.bytes.len();
        };
        let held = begun.iter().filter(|frame| frame.is_held).count();
        progress.held = progress.held.saturating_sub(held as u32);
        progress.fed = match begun.last() {
            // The head may not have reached the cursor of a client of another node.
            _ if is_done => last.max(fed),
            _ if is_sent => through,
            Some(frame) => frame.position,
            None => fed,
        };
        assert!(progress.fed >= fed, "a session is fed forwards");
        if is_done {
            // What was held and is not for the session any more: it follows the subject no more.
            let lost = std::mem::take(&mut progress.held);
            table.stats.add(Metric::DeliveriesLost, lost.into());
        }
        match progress.stage {
            Stage::Rewind { live_from, .. } if is_done => {
                progress.stage = Stage::Missed { live_from };
                sessions.replays.feed_soon(key);
            }
            Stage::Missed { .. } if is_done && may_go_live => {
                match last < fed {
                    true => sessions.replays.go_live_ahead(key, fed),
                    false => sessions.replays.go_live(key, last),
                }
                table.stats.take(Metric::SessionsReplaying, 1);
            }
            Stage::Missed { live_from } if is_done && !is_blocked => {
                sessions.replays.await_period(key, live_from);
            }
            _ if !is_blocked => sessions.replays.feed_soon(key),
            _ => {}
        }
        self.bytes.len()
    }

    /// Encodes the events that were found, as many as a step may send. Returns whether all of them
    /// are encoded; `None` if events that the session has not got have left the history.
    fn encode<M: Mailboxes>(
        &mut self,
        router: &Router<M>,
        replay: &Replay,
        session: Session,
    ) -> Option<bool> {
        let bytes_max = self.searches.limits.replay_bytes_per_step;
        let (bytes, frames) = (&mut self.bytes, &mut self.frames);
        bytes.clear();
        frames.clear();
        router.recorder()?.read(|history| {
            let is_rewind = matches!(replay.stage, Stage::Rewind { .. });
            if !is_rewind && history.left() > replay.fed {
                return None;
            }
            let push_frame = |position, event: &Event<'_>| {
                let has_room = bytes.len() < bytes_max;
                if has_room {
                    push(bytes, |out| {
                        frame::encode(session.encoding, event, out).range(session.framing)
                    });
                    frames.push(KeptFrame {
                        end: bytes.len(),
                        position,
                        is_held: position >= replay.held_from,
                    });
                }
                has_room
            };
            Some(each_stored(router, history, &self.missed, push_frame))
        })
    }

    /// Tells a session that it has fallen behind the history, and lets it go on with what there is.
    fn reset<D: Driver, M: Mailboxes>(
        &mut self,
        table: &mut ConnectionTable<D>,
        sessions: &mut Sessions,
        router: &Router<M>,
        key: SlotKey,
        session: Session,
        fed: u64,
    ) -> usize {
        let reason = ResetReason::Expired;
        table.stats.add(outcome(Some(reason)), 1);
        let keys = sessions.keys(key.index, &session);
        let after = after_reset(router, keys, fed, table.limits);
        self.bytes.clear();
        let from = Cursor::complete(router.epoch(), fed).to_string();
        push_reset(
            session,
            router.epoch(),
            reason,
            &from,
            after,
            &mut self.bytes,
        );
        table.send(key, &self.bytes);
        if let Some(replay) = sessions.replays.get_mut(key) {
            replay.fed = after;
            replay.lost = (fed, after);
        }
        if table.get(key).is_some_and(|connection| !connection.blocked) {
            sessions.replays.feed_soon(key);
        }
        self.bytes.len()
    }

    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn keeps_no_search(&self) -> bool {
        self.searches.is_empty()
    }
}

/// Ends the current planning period and the next one, unless publishers are still planning. Returns
/// the current period.
pub(crate) fn advance_period<M: Mailboxes>(router: &Router<M>) -> u64 {
    router.try_advance();
    router.try_advance()
}
