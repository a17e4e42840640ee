//! Polls: requests to answers from the history.

use std::sync::Arc;

use graph::Key;
use history::Cursor;
use reactor::{Driver, SlotKey};
use wire::head::{Method, Request};
use wire::notice::ResetReason;
use wire::status::Status;

use super::poll::{Batch, BatchFormat, BatchSearch, PollRequest, Waiting, Wake};
use super::reading::Reading;
use super::requests::Requests;
use super::sessions::Sessions;
use crate::answer::{Answer, Fields, Responder};
use crate::presence;
use crate::replay::outcome;
use crate::stats::Metric;
use crate::table::{CloseReason, ConnectionTable, Extras, Phase};

impl Requests<'_> {
    /// Handles a request for a poll: answers it if there is something to tell or it does not want
    /// to wait. The error is the answer to one that is refused; `None` while it waits to be let in.
    pub(super) fn poll<'a, D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'a>,
        segment: &'a str,
    ) -> Result<(), Option<Answer>> {
        let grant = self.authorize(table, key, request, segment, Reading::Poll)?;
        let asked = PollRequest::of(request, self.sessions.presence().is_some())?;
        let Some(head) = self.sessions.shared.router.head() else {
            return Err(Some(Answer::error(
                Status::NOT_IMPLEMENTED,
                "long polling needs the history, which --history-bytes 0 has switched off; use \
                 /events/{id} or /stream/{id}",
            )));
        };
        if request.method == Method::Head {
            let answer = self.sessions.poll_answer(None, head, asked.format, None);
            return Err(Some(answer));
        }
        self.let_in(table, key, request, &grant, Reading::Poll)?;
        let logged_in = self
            .sessions
            .log_in_granted(table, key, &grant, Reading::Poll);
        let keys =
            logged_in.map_err(|refused| self.refused(table, request, Reading::Poll, refused))?;
        let keys = keys.into_boxed_slice();
        let sessions = &mut *self.sessions;
        let router = Arc::clone(&sessions.shared.router);
        // After the login: what was planned before it is posted by then.
        let period = router.period() + 2;
        table.stats.add(Metric::Logins, 1);
        table.stats.add(Metric::SessionsPoll, 1);
        if let Some(connection) = table.get_mut(key) {
            connection.extras.insert(Extras::LOGIN);
        }
        let search = BatchSearch {
            router: &*router,
            keys: &keys,
            format: asked.format,
            limits: table.limits,
        };
        let batch = search.begin(head, &asked.start);
        let is_over = batch.has_news() || asked.wait.is_zero();
        let waiting = Waiting {
            after: batch.position,
            format: asked.format,
            presence: asked.presence,
            manner: self.responder.keep(table, key, request),
        };
        if is_over {
            sessions.end_poll(table, self.responder, key, keys, &waiting, batch, None);
        } else {
            let now = table.clock.now;
            table.enter(key, Phase::Pending);
            sessions
                .polls
                .add(key, keys, waiting, period, now, asked.wait);
        }
        Ok(())
    }
}

impl Sessions {
    /// Looks at a poll that waits, and answers it if there is something to tell or it must be
    /// answered. Returns whether its connection can go on with its next request.
    pub(crate) fn answer_poll<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        responder: &mut Responder,
        key: SlotKey,
        wake: Wake,
    ) -> bool {
        let router = Arc::clone(&self.shared.router);
        let (Some(waiting), Some(keys)) = (self.polls.waiting(key), self.polls.keys(key)) else {
            return false;
        };
        let search = BatchSearch {
            router: &*router,
            keys,
            format: waiting.format,
            limits: table.limits,
        };
        let batch = search.after(waiting.after);
        if wake == Wake::Event && !batch.has_news() {
            return false;
        }
        let Some((keys, Some(waiting))) = self.polls.remove(key) else {
            return false;
        };
        let end = match wake {
            Wake::Event | Wake::Now => None,
            Wake::End(reason) => Some(reason),
        };
        self.end_poll(table, responder, key, keys, &waiting, batch, end);
        table
            .get(key)
            .is_some_and(|connection| matches!(connection.phase, Phase::Head { .. }))
    }

    /// Answers a poll. Its login stays for a while if its client can come back; `end` is why it
    /// cannot.
    #[expect(
        clippy::too_many_arguments,
        reason = "two call sites; each argument is used once"
    )]
    fn end_poll<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        responder: &mut Responder,
        key: SlotKey,
        keys: Box<[Key]>,
        waiting: &Waiting,
        mut batch: Batch,
        end: Option<CloseReason>,
    ) {
        table.stats.take(Metric::SessionsPoll, 1);
        if batch.reset.is_some() {
            table.stats.add(outcome(batch.reset), 1);
        }
        self.end_lease(table, key);
        if let Some(presence) = self.presence().filter(|_| waiting.presence) {
            batch.begin_with(presence::for_poll(
                presence.online(),
                self.graph(),
                &keys,
                table.limits,
            ));
        }
        let answer = self.poll_answer(
            Some(batch.body),
            batch.position,
            waiting.format,
            batch.reset,
        );
        // The login must be kept before the connection may be closed.
        let now = table.clock.now;
        self.polls.keep_login(key, keys, now);
        responder.answer_later(table, key, &waiting.manner, &answer, end);
    }

    /// Logs a connection out that was logged in for a poll.
    pub(crate) fn log_out_poll<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        reason: CloseReason,
    ) {
        let waits = self.polls.waiting(key).is_some();
        if let Some(keys) = self.take_poll_login(table, key) {
            if waits {
                table.stats.take(Metric::SessionsPoll, 1);
                self.end_lease(table, key);
            }
            self.observe_logout(table, key, &keys, Reading::Poll, reason);
            self.log_out_of(key, &keys);
        }
    }

    pub(super) fn take_poll_login<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
    ) -> Option<Box<[Key]>> {
        let (keys, _) = self.polls.remove(key)?;
        table.clear(key, Extras::LOGIN);
        Some(keys)
    }

    /// Makes the answer to a poll: 200 with a batch, or 204. Both have the cursor.
    fn poll_answer(
        &self,
        body: Option<Vec<u8>>,
        position: u64,
        format: BatchFormat,
        reset: Option<ResetReason>,
    ) -> Answer {
        let cursor = Cursor::complete(self.shared.router.epoch(), position);
        let fields = Fields::Poll {
            cursor: cursor.to_string(),
            reset,
        };
        let body = body.unwrap_or_default();
        match body.is_empty() && reset.is_none() {
            true => Answer {
                status: Status::NO_CONTENT,
                content_type: "",
                fields,
                body: Vec::new().into(),
            },
            false => Answer {
                status: Status::OK,
                content_type: format.content_type(),
                fields,
                body: match body.is_empty() {
                    true => b"[]".as_slice().into(),
                    false => body.into(),
                },
            },
        }
    }
}
