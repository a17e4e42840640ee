//! Logins that a program outside decides on. Without such a check nothing is asked or kept.

use std::sync::Arc;

use graph::Id;
use reactor::{Driver, SlotKey};
use wire::head::Request;
use wire::transport::Transport;

use super::follow::CommandError;
use super::reading::Reading;
use super::sessions::Sessions;
use crate::answer::client_of;
use crate::identity::{Denial, Grant};
use crate::login_check::{LoginQuestion, LoginVerdict};
use crate::mail::Mail;
use crate::stage::Stage as _;
use crate::table::{ConnectionTable, Phase};

/// What is known of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checked {
    /// It may go on.
    Accepted,
    /// It goes on, or not, when an answer has come.
    Waits,
}

impl Sessions {
    /// Asks about the session that a request opens, or takes the answer if the request is handled
    /// again. While it waits, its head is kept.
    ///
    /// # Errors
    ///
    /// [`Denial::Declined`], or [`Denial::Undecided`] if nobody has decided in time.
    pub(super) fn check_login<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
        grant: &Grant<'_>,
        reading: Reading,
    ) -> Result<Checked, Denial> {
        if !self.shared.settings.login_check {
            return Ok(Checked::Accepted);
        }
        if reading == Reading::Poll && self.polls_on(key, &grant.ids) {
            return Ok(Checked::Accepted);
        }
        let question = LoginQuestion {
            ids: grant.ids.clone(),
            transport: reading.name(),
            address: client_of(table, key, Some(request), &table.live.policy),
            subject: subject(grant),
        };
        match self.login_checks.take(key, &question) {
            Some(LoginVerdict::Accepted) => return Ok(Checked::Accepted),
            Some(LoginVerdict::Refused) => return Err(Denial::Declined),
            Some(LoginVerdict::Undecided) => return Err(Denial::Undecided),
            None => {}
        }
        let number = self.login_checks.add_request(key, &question, table.limits);
        let asked = number.is_some_and(|number| self.ask(key, number, question));
        if !asked {
            self.login_checks.forget(key);
            return Err(Denial::Undecided);
        }
        table.enter(key, Phase::AwaitingKeys);
        Ok(Checked::Waits)
    }

    /// Returns whether a connection polls on, as the same ids as at its last poll, which was
    /// decided on.
    fn polls_on(&self, key: SlotKey, ids: &[Id]) -> bool {
        let graph = self.shared.router.graph();
        let polled = self.polls.keys(key);
        polled.is_some_and(|polled| {
            let known = ids.iter().map(|id| graph.find(id));
            known.eq(polled.iter().map(|&key| Some(key)))
        })
    }

    /// Asks about ids that an open session is to follow too. Those that it follows already need no
    /// answer.
    ///
    /// # Errors
    ///
    /// When the session may not follow them, whatever the answer, or nobody can be asked.
    pub(crate) fn check_subscribe<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        ids: &[Id],
    ) -> Result<Checked, CommandError> {
        if !self.shared.settings.login_check {
            return Ok(Checked::Accepted);
        }
        let Some(grant) = self.subscription(table, key, ids)? else {
            return Ok(Checked::Accepted);
        };
        let question = LoginQuestion {
            ids: grant.ids.clone(),
            transport: Transport::WebSocket.name(),
            address: client_of(table, key, None, &table.live.policy),
            subject: subject(&grant),
        };
        let number = self.login_checks.add_subscribe(key, ids, table.limits);
        let Some(number) = number else {
            table.stats.denied(Denial::Undecided.metric());
            return Err(Denial::Undecided.into());
        };
        if !self.ask(key, number, question) {
            self.login_checks
                .answer(key, number, LoginVerdict::Undecided);
            table.stats.denied(Denial::Undecided.metric());
            return Err(Denial::Undecided.into());
        }
        Ok(Checked::Waits)
    }

    /// Asks a question. Returns whether there is somebody to ask.
    fn ask(&self, key: SlotKey, number: u64, question: LoginQuestion) -> bool {
        let Some(checker) = self.shared.identity.login_checker.get() else {
            return false;
        };
        let mailbox = Arc::clone(self.shared.mailbox(self.worker));
        let answer = move |verdict| {
            mailbox.insert(Mail::LoginChecked {
                key,
                number,
                verdict,
            });
        };
        checker.ask(question, Box::new(answer));
        true
    }
}

fn subject(grant: &Grant<'_>) -> Option<String> {
    let identity = grant.identity.as_ref()?;
    identity.subject.as_ref().map(ToString::to_string)
}
