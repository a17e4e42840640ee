//! Lists of subscriptions that are too long to be held, and are applied in parts as they arrive.
//!
//! The graph applies one part of a list while the next is read. If that is full too, the node is
//! not read until the graph has caught up, so a list of any length takes the memory of two parts.

use std::collections::VecDeque;

use router::Mailboxes;

use super::Node;
use super::registered::RegisteredProcess;
use super::subsmanager::read_change;
use crate::answers::Caller;
use crate::connections::ConnectionId;
use crate::large_list::{LargeList, ListMessage, ListReader};
use crate::limits::{LIST_PART_CHANGES, LIST_STALL_TIME, LISTS_MAX, LISTS_PER_NODE_MAX};
use crate::open_lists::{ListId, OpenList, Part};
use crate::pending_calls::PendingCall;
use crate::refusal::Refusal;
use crate::replicated::{self, Outcome};

impl<M: Mailboxes> Node<M> {
    /// Handles the beginning of a list.
    ///
    /// # Errors
    ///
    /// When the list is refused. Its caller gets an answer with the reason.
    pub(crate) fn on_list_begun(
        &mut self,
        connection: ConnectionId,
        begun: &LargeList<'_>,
    ) -> Result<(), Refusal> {
        let caller = Caller {
            connection,
            from: begun.from,
        };
        let process = RegisteredProcess::recipient(&self.config.me, begun.control);
        if process != Some(RegisteredProcess::Subsmanager) {
            let sentence = "lists of subscriptions must be sent to subsmanager";
            self.connections.answer_error(caller, sentence);
            return Err(Refusal::NotUnderstood);
        }
        let lists = &self.lists.open;
        let of_node = lists.iter().filter(|list| list.connection == connection);
        if lists.len() >= LISTS_MAX || of_node.count() >= LISTS_PER_NODE_MAX {
            let sentence = format!(
                "at most {LISTS_MAX} long lists may be in progress, {LISTS_PER_NODE_MAX} of one \
                 node; call again when one of them is answered"
            );
            self.connections.answer_error(caller, &sentence);
            return Err(Refusal::TooLarge);
        }
        self.lists.last += 1;
        self.lists.open.push(OpenList {
            id: ListId(self.lists.last),
            connection,
            message: begun.message,
            from: caller.kept(),
            verb: begun.verb,
            reader: ListReader::new(begun.count),
            parts: VecDeque::new(),
            read: 0,
            in_flight: None,
            done: 0,
            failure: None,
            last_arrived: self.now,
        });
        self.on_list_piece(connection, begun.message, begun.piece, false);
        Ok(())
    }

    /// Handles a further piece of a list, unless the list has failed.
    pub(crate) fn on_list_piece(
        &mut self,
        connection: ConnectionId,
        message: ListMessage,
        piece: &[u8],
        is_last: bool,
    ) {
        let Some(at) = self.lists.find(connection, message) else {
            return;
        };
        let now = self.now;
        let list = &mut self.lists.open[at];
        list.last_arrived = now;
        let (verb, id_terms) = (list.verb, &self.id_terms);
        let OpenList {
            reader,
            parts,
            read: count,
            ..
        } = list;
        let mut failure = None;
        let result = reader.read(piece, |element| {
            if parts
                .back()
                .is_none_or(|part| part.changes.len() >= LIST_PART_CHANGES)
            {
                parts.push_back(Part::default());
            }
            let part = parts
                .back_mut()
                .expect("a part was added if there was none");
            match read_change(id_terms, verb, element, &mut part.id_terms) {
                Ok(change) => part.changes.push(change),
                Err(why) => failure = Some(why.to_string()),
            }
            *count += usize::from(failure.is_none());
            failure.is_none()
        });
        let failure = failure.or(result.err().map(|error| error.to_string()));
        if let Some(why) = failure {
            let at = list.read + 1;
            list.fail(format!("subscription {at}: {why}"));
        } else if is_last && !list.reader.has_ended() {
            list.fail("the message ends within the list".to_owned());
        }
        self.advance_list(at);
    }

    /// Ends a list whose rest cannot be read.
    pub(crate) fn on_list_broken(&mut self, connection: ConnectionId, message: ListMessage) {
        if let Some(at) = self.lists.find(connection, message) {
            self.lists.open[at].fail("a fragment of the list is missing".to_owned());
            self.advance_list(at);
        }
    }

    /// Ends lists without new data for [`LIST_STALL_TIME`].
    pub(crate) fn end_stalled_lists(&mut self) {
        for at in (0..self.lists.open.len()).rev() {
            let list = &mut self.lists.open[at];
            let is_stalled = list.failure.is_none()
                && !list.reader.has_ended()
                && list.in_flight.is_none()
                && self.now.since(list.last_arrived) >= LIST_STALL_TIME;
            if is_stalled {
                list.fail(format!(
                    "no more of the list arrived for {} s",
                    LIST_STALL_TIME.as_secs()
                ));
                self.advance_list(at);
            }
        }
    }

    /// Handles the outcome of a part, and continues with the next part.
    pub(super) fn on_part_completed(&mut self, id: ListId, outcome: Outcome) {
        let Some(at) = self.lists.open.iter().position(|list| list.id == id) else {
            return;
        };
        let now = self.now;
        let list = &mut self.lists.open[at];
        let count = list.in_flight.take().unwrap_or_default();
        match outcome {
            Outcome::Changes(Ok(())) => list.done += count,
            Outcome::Changes(Err(error)) => list.fail(error.to_string()),
            Outcome::NotLogged(error) => list.fail(replicated::sentence(error)),
            Outcome::Receipt(_) => {}
        }
        // The node was not read meanwhile, so it must not count as silent.
        list.last_arrived = now;
        if let Some(connection) = self.connections.schedule_flush(list.connection) {
            connection.last_received = now;
        }
        self.advance_list(at);
    }

    /// Submits the next part to the graph, or answers the caller.
    fn advance_list(&mut self, at: usize) {
        let list = &mut self.lists.open[at];
        if list.is_part_due()
            && let Some(Part { changes, id_terms }) = list.parts.pop_front()
        {
            list.in_flight = Some(changes.len());
            let call = PendingCall {
                connection: list.connection,
                from: None,
                id_terms,
                list: Some(list.id),
            };
            return self.submit(call, changes);
        }
        if !list.is_over() {
            return;
        }
        let list = self.lists.open.swap_remove(at);
        let done = list.failure.map_or(Ok(()), |why| {
            Err(format!(
                "{why}; at least the first {} subscriptions of this long list were changed; it is \
                 safe to send them again",
                list.done
            )
            .into())
        });
        let caller = Caller::restore(list.connection, list.from.as_deref());
        self.connections.answer_result(caller, done);
    }
}
