//! `subsmanager`: `{add_subscriptions, [#subscription{}]}`, `{remove_subscriptions, [...]}`,
//! `{get_subscribers, User}`.

use ::router::Mailboxes;
use graph::{Change, Id};

use super::open_lists::ListId;
use super::{ErrorText, ProcessRegistry, RegisteredProcess, answer, answer_error};
use crate::connections::{ConnectionId, Connections};
use crate::id_terms::IdTerm;
use crate::ids;
use crate::limits::{ANSWER_BYTES_MAX, SUBSCRIPTIONS_MAX};
use crate::pending_calls::PendingCall;
use crate::replicated;
use crate::term::{Elements, Raw, Term, write};

/// Subscribers read from the graph at a time.
const SLICE: usize = 4096;

impl<M: Mailboxes> ProcessRegistry<M> {
    pub(super) fn on_subsmanager(
        &mut self,
        connections: &mut Connections,
        connection: ConnectionId,
        from: Option<Raw<'_>>,
        request: Raw<'_>,
    ) {
        match request.tuple() {
            Some([verb, list]) if verb.is_atom("add_subscriptions") => {
                self.change(
                    connections,
                    connection,
                    from,
                    list,
                    |subscriber, subject| Change::Subscribe {
                        subscriber,
                        subject,
                    },
                );
            }
            Some([verb, list]) if verb.is_atom("remove_subscriptions") => {
                self.change(
                    connections,
                    connection,
                    from,
                    list,
                    |subscriber, subject| Change::Unsubscribe {
                        subscriber,
                        subject,
                    },
                );
            }
            // Short requests can have long answers, which must be limited.
            Some([verb, _])
                if verb.is_atom("get_subscribers") && connections.is_congested(connection) =>
            {
                let sentence = "this node has not yet read earlier answers; ask again when it has";
                answer_error(connections, connection, from, sentence);
            }
            Some([verb, user]) if verb.is_atom("get_subscribers") => match self.subscribers(user) {
                Ok(list) => answer(connections, connection, from, |out| out.extend(list)),
                Err(sentence) => answer_error(connections, connection, from, &sentence),
            },
            _ if request.is_atom("pid") => self.answer_pid(
                connections,
                connection,
                from,
                RegisteredProcess::Subsmanager,
            ),
            _ => {
                let known = "subsmanager takes {add_subscriptions, List}, \
                             {remove_subscriptions, List}, {get_subscribers, User} and pid";
                answer_error(connections, connection, from, known);
            }
        }
    }

    /// Changes all subscriptions of a list, or none if one of them is malformed. If the graph is on
    /// disk, the answer is sent when the changes are on disk.
    fn change(
        &mut self,
        connections: &mut Connections,
        connection: ConnectionId,
        from: Option<Raw<'_>>,
        list: Raw<'_>,
        change: impl Fn(Id, Id) -> Change,
    ) {
        let (changes, id_terms) = match self.read_changes(list, change) {
            Ok(read) => read,
            Err(sentence) => return answer_error(connections, connection, from, &sentence),
        };
        self.submit(connection, from, changes, id_terms, None);
    }

    /// Submits changes to the log of the cluster or to the graph: all changes of a call, or a part
    /// of a list.
    pub(super) fn submit(
        &mut self,
        connection: ConnectionId,
        from: Option<Raw<'_>>,
        changes: Vec<Change>,
        id_terms: Vec<IdTerm>,
        list: Option<ListId>,
    ) {
        let call = PendingCall {
            connection,
            from: from.map(|from| from.bytes().into()),
            id_terms,
            list,
        };
        if let Some(log) = &self.log {
            let call = self.calls.logged(call);
            return replicated::append_changes(&**log, changes, &call);
        }
        let done = self.calls.changes(call);
        self.router.graph().submit(changes, done);
    }

    fn read_changes(
        &self,
        list: Raw<'_>,
        change: impl Fn(Id, Id) -> Change,
    ) -> Result<(Vec<Change>, Vec<IdTerm>), ErrorText> {
        let subscriptions = elements(list)?;
        if subscriptions.len() > SUBSCRIPTIONS_MAX {
            return Err(format!(
                "a list whose head is not at the beginning of its message may have at most \
                 {SUBSCRIPTIONS_MAX} subscriptions, but this one has {}; make several calls",
                subscriptions.len()
            ));
        }
        let mut changes = Vec::with_capacity(subscriptions.len());
        let mut id_terms = Vec::new();
        for (at, term) in subscriptions.enumerate() {
            let read = read(term).map_err(|why| format!("subscription {}: {why}", at + 1))?;
            let [(subscriber, who), (subject, whom)] = read;
            let change = change(subscriber, subject);
            if let Change::Subscribe {
                subscriber,
                subject,
            } = &change
            {
                id_terms.extend(self.id_terms.term_to_remember(subscriber, who));
                id_terms.extend(self.id_terms.term_to_remember(subject, whom));
            }
            changes.push(change);
        }
        Ok((changes, id_terms))
    }

    /// Writes the list of the subscribers of `user`.
    fn subscribers(&self, user: Raw<'_>) -> Result<Vec<u8>, ErrorText> {
        let id = ids::of_term(user).map_err(|error| error.to_string())?;
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
            ));
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

/// Returns the elements of a proper list.
fn elements(list: Raw<'_>) -> Result<Elements<'_>, ErrorText> {
    match list.view() {
        Term::List(list) if list.is_proper() => Ok(list.elements()),
        Term::Nil => Ok(Elements::none()),
        _ => Err("subscriptions must be a list of #subscription{} records or of pairs".to_owned()),
    }
}

/// Reads a record `{subscription, Subscriber, Subject}` or a pair `{Subscriber, Subject}`.
pub(super) fn read(term: Raw<'_>) -> Result<[(Id, Raw<'_>); 2], ErrorText> {
    let pair = match term.tuple() {
        Some([record, subscriber, subject]) if record.is_atom("subscription") => {
            Some([subscriber, subject])
        }
        _ => term.tuple(),
    };
    let Some([subscriber, subject]) = pair else {
        return Err("it is neither {subscription, Subscriber, Subject} nor a pair".to_owned());
    };
    let id = |term| ids::of_term(term).map_err(|error| error.to_string());
    Ok([(id(subscriber)?, subscriber), (id(subject)?, subject)])
}
