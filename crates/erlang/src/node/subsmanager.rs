//! `subsmanager`: `{add_subscriptions, [#subscription{}]}`, `{remove_subscriptions, [...]}`,
//! `{get_subscribers, User}`.

use graph::Change;
use router::Mailboxes;

use super::Node;
use super::registered::RegisteredProcess;
use crate::answers::{CallError, Caller};
use crate::id_terms::{IdTerm, IdTerms};
use crate::ids;
use crate::large_list::ListVerb;
use crate::limits::{ANSWER_BYTES_MAX, SUBSCRIPTIONS_MAX};
use crate::pending_calls::PendingCall;
use crate::replicated;
use crate::term::{Raw, write};

/// Subscribers read from the graph at a time.
const SLICE: usize = 4096;

impl<M: Mailboxes> Node<M> {
    pub(super) fn on_subsmanager(&mut self, caller: Caller<'_>, request: Raw<'_>) {
        if let Some([verb, list]) = request.tuple()
            && let Some(verb) = ListVerb::named(verb)
        {
            return self.change(caller, verb, list);
        }
        match request.tuple() {
            // Short requests can have long answers, which must be limited.
            Some([verb, _])
                if verb.is_atom("get_subscribers")
                    && self.connections.is_congested(caller.connection) =>
            {
                let sentence = "this node has not yet read earlier answers; ask again when it has";
                self.connections.answer_error(caller, sentence);
            }
            Some([verb, user]) if verb.is_atom("get_subscribers") => match self.subscribers(user) {
                Ok(list) => self.connections.answer(caller, |out| out.extend(list)),
                Err(error) => self.connections.answer_result(caller, Err(error)),
            },
            _ if request.is_atom("pid") => {
                self.answer_pid(caller, RegisteredProcess::Subsmanager);
            }
            _ => {
                let known = "subsmanager takes {add_subscriptions, List}, \
                             {remove_subscriptions, List}, {get_subscribers, User} and pid";
                self.connections.answer_error(caller, known);
            }
        }
    }

    /// Changes all subscriptions of a list, or none if one of them is malformed. If the graph is on
    /// disk, the answer is sent when the changes are on disk.
    fn change(&mut self, caller: Caller<'_>, verb: ListVerb, list: Raw<'_>) {
        let (changes, id_terms) = match self.read_changes(verb, list) {
            Ok(read) => read,
            Err(error) => return self.connections.answer_result(caller, Err(error)),
        };
        let call = PendingCall {
            id_terms,
            ..PendingCall::of(caller)
        };
        self.submit(call, changes);
    }

    /// Submits changes to the log of the cluster or to the graph: all changes of a call, or a part
    /// of a list.
    pub(super) fn submit(&mut self, call: PendingCall, changes: Vec<Change>) {
        if let Some(log) = &self.config.log {
            let call = self.calls.logged(call);
            return replicated::append_changes(&**log, changes, &call);
        }
        let done = self.calls.changes(call);
        self.router.graph().submit(changes, done);
    }

    fn read_changes(
        &self,
        verb: ListVerb,
        list: Raw<'_>,
    ) -> Result<(Vec<Change>, Vec<IdTerm>), CallError> {
        let subscriptions = list
            .elements()
            .ok_or("subscriptions must be a list of #subscription{} records or of pairs")?;
        if subscriptions.len() > SUBSCRIPTIONS_MAX {
            return Err(format!(
                "a list whose head is not at the beginning of its message may have at most \
                 {SUBSCRIPTIONS_MAX} subscriptions, but this one has {}; make several calls",
                subscriptions.len()
            )
            .into());
        }
        let mut changes = Vec::with_capacity(subscriptions.len());
        let mut id_terms = Vec::new();
        for (at, term) in subscriptions.enumerate() {
            let change = read_change(&self.id_terms, verb, term, &mut id_terms);
            changes.push(change.map_err(|why| format!("subscription {}: {why}", at + 1))?);
        }
        Ok((changes, id_terms))
    }

    /// Writes the list of the subscribers of `user`.
    fn subscribers(&self, user: Raw<'_>) -> Result<Vec<u8>, CallError> {
        let id = ids::of_term(user)?;
        let graph = self.router.graph();
        let mut out = Vec::new();
        let mut count = 0;
        // Hold the key, so that it is not reused for another id meanwhile.
        let subject = graph.hold_known(&id);
        let mut keys = Vec::new();
        let mut after = None;
        let mut fits = true;
        while let Some(subject) = subject
            && fits
        {
            keys.clear();
            graph.subscribers(subject, after, SLICE, &mut keys);
            after = keys.last().copied();
            for id in keys.iter().filter_map(|&key| graph.name(key)) {
                self.id_terms.write(&mut out, &id);
                count += 1;
            }
            fits = out.len() <= ANSWER_BYTES_MAX;
            if keys.len() < SLICE {
                break;
            }
        }
        if let Some(subject) = subject {
            graph.release(subject);
        }
        if !fits {
            return Err(format!(
                "there are more than {count} subscribers, too many for one answer; read them in \
                 pages over HTTP"
            )
            .into());
        }
        let mut list = Vec::with_capacity(out.len() + 8);
        if count > 0 {
            write::list(&mut list, count);
        }
        list.extend(out);
        write::nil(&mut list);
        Ok(list)
    }
}

/// Reads a change from a record `{subscription, Subscriber, Subject}` or a pair `{Subscriber,
/// Subject}`. Adds the terms to remember once it is made.
pub(super) fn read_change(
    known: &IdTerms,
    verb: ListVerb,
    term: Raw<'_>,
    id_terms: &mut Vec<IdTerm>,
) -> Result<Change, CallError> {
    let pair = match term.tuple() {
        Some([record, subscriber, subject]) if record.is_atom("subscription") => {
            Some([subscriber, subject])
        }
        _ => term.tuple(),
    };
    let Some([who, whom]) = pair else {
        return Err("it is neither {subscription, Subscriber, Subject} nor a pair".into());
    };
    let (subscriber, subject) = (ids::of_term(who)?, ids::of_term(whom)?);
    Ok(match verb {
        ListVerb::Add => {
            id_terms.extend(known.term_to_remember(&subscriber, who));
            id_terms.extend(known.term_to_remember(&subject, whom));
            Change::Subscribe {
                subscriber,
                subject,
            }
        }
        ListVerb::Remove => Change::Unsubscribe {
            subscriber,
            subject,
        },
    })
}
