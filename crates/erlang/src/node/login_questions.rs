//! Questions to the process that decides on logins of clients, and its answers.
//!
//! A question is a `gen_server` call, `{'$gen_call', {Router, Tag}, {login, Ids, Client}}`, and its
//! answer is `{Tag, Answer}`: `ok` accepts the client, and every other term refuses it.

use std::net::IpAddr;

use router::Mailboxes;
use server::{LoginQuestion, LoginVerdict};

use super::Node;
use super::registered::RegisteredProcess;
use crate::connections::ConnectionId;
use crate::control;
use crate::handshake::LocalNode;
use crate::id_terms::IdTerms;
use crate::metrics::Metric;
use crate::refusal::Refusal;
use crate::term::{Atom, Raw, write};

/// First word of a question's tag. References of monitors never have it.
const TAG_WORD: u32 = 0x3_ffff;

/// Writes `{login, Ids, #{transport => .., address => .., subject => ..}}`.
fn request(out: &mut Vec<u8>, id_terms: &IdTerms, question: &LoginQuestion) {
    write::tuple(out, 3);
    write::atom(out, "login");
    write::list(out, question.ids.len());
    question.ids.iter().for_each(|id| id_terms.write(out, id));
    write::nil(out);
    write::map(out, 3);
    write::atom(out, "transport");
    write::atom(out, question.transport);
    let address = question.address.as_ref().map(IpAddr::to_string);
    for (key, value) in [("address", &address), ("subject", &question.subject)] {
        write::atom(out, key);
        match value {
            Some(text) => write::binary(out, text.as_bytes()),
            None => write::atom(out, "undefined"),
        }
    }
}

/// Writes the tag of a question.
fn tag(out: &mut Vec<u8>, me: &LocalNode, number: u64) {
    let words = [TAG_WORD, number as u32, (number >> 32) as u32];
    write::reference(out, Atom::of(me.name.as_str()), me.creation, &words);
}

/// Reads the tag of a question.
fn number(me: &LocalNode, tag: Raw<'_>) -> Option<u64> {
    let mut words = me.own_words(tag)?;
    let (word, low, high) = (words.next()?, words.next()?, words.next()?);
    (word == TAG_WORD).then_some(u64::from(low) | u64::from(high) << 32)
}

impl<M: Mailboxes> Node<M> {
    /// Sends waiting questions to the process, and gives up those that have timed out.
    pub(crate) fn ask_logins(&mut self) {
        let Some(logins) = &mut self.logins else {
            return;
        };
        let mut unanswered = 0;
        logins.expire(self.now, &mut unanswered);
        let node = logins.check.process.node().as_str();
        let connections = &mut self.connections;
        let connection = connections.find(node);
        let connection =
            connection.filter(|&id| connections.is_up(id) && !connections.is_congested(id));
        for open in logins.queue.take() {
            let Some(connection) = connection else {
                unanswered += 1;
                open.give_up();
                continue;
            };
            logins.last += 1;
            let number = logins.last;
            let (me, id_terms) = (&self.config.me, &self.id_terms);
            let router = RegisteredProcess::Router.pid(me);
            connections.message(
                connection,
                |out| control::send_named(out, router, logins.check.process.name()),
                |out| {
                    write::tuple(out, 3);
                    write::atom(out, "$gen_call");
                    write::tuple(out, 2);
                    write::pid(out, router);
                    tag(out, me, number);
                    request(out, id_terms, &open.question);
                },
            );
            logins.open.insert(number, open);
            logins.by_age.push_back((self.now, number));
        }
        self.metrics.add(Metric::LoginsUnanswered, unanswered);
    }

    /// Handles a message to the router that is an answer about a login.
    ///
    /// # Errors
    ///
    /// When it is not an answer, or does not come from the node of the process.
    pub(super) fn on_login_answer(
        &mut self,
        connection: ConnectionId,
        message: Raw<'_>,
    ) -> Result<(), Refusal> {
        let (Some(logins), Some([tag, answer])) = (&mut self.logins, message.tuple()) else {
            return Err(Refusal::NotUnderstood);
        };
        let number = number(&self.config.me, tag).ok_or(Refusal::NotUnderstood)?;
        if self.connections.find(logins.check.process.node().as_str()) != Some(connection) {
            return Err(Refusal::NotUnderstood);
        }
        // If the question is no longer open, the answer is too late.
        if let Some(open) = logins.open.remove(&number) {
            open.answer(match answer.is_atom("ok") {
                true => LoginVerdict::Accepted,
                false => LoginVerdict::Refused,
            });
        }
        Ok(())
    }

    /// Gives up the questions sent on a connection that has ended.
    pub(super) fn on_node_gone(&mut self, node: &str) {
        if let Some(logins) = &mut self.logins
            && logins.check.process.node().as_str() == node
        {
            let unanswered = logins.give_up();
            self.metrics.add(Metric::LoginsUnanswered, unanswered);
        }
    }
}
