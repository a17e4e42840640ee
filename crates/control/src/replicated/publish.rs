//! One event on one request, through the log.

use axum::http::StatusCode;
use replication::{AppendError, CommandResult, Wait};
use router::Event;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Replicated, append, command, sentence};
use crate::api::Api;
use crate::idempotency::{again, answer, of_another};
use crate::limits::{FIRST_ANSWER_INTERVAL, FIRST_ANSWER_WAIT};
use crate::metrics::published::Verb;
use crate::problem::{Answered, Problem};
use crate::receipt::{Receipt, When};
use crate::shared::piece::{Digest, KeyPiece};

/// Request with an idempotency key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyed {
    /// Token and key.
    pub(crate) key: Digest,
    /// What the request publishes.
    pub(crate) request: Digest,
}

/// Publishes an event and answers with its receipt over all nodes.
pub(crate) async fn deliver(
    api: &Api,
    replicated: &Replicated,
    verb: Verb,
    event: Event,
    is_stored: bool,
    when: When,
    keyed: Option<Keyed>,
) -> Answered {
    let _pending = api.published.pending();
    let begun = Instant::now();
    if let Some(keyed) = &keyed
        && let Some(answer) = replicated.answer_again(keyed)
    {
        return answer;
    }
    let (wait, code) = match when {
        When::Full => (Wait::Delivered, StatusCode::OK),
        When::Early => (Wait::Logged, StatusCode::ACCEPTED),
    };
    let claim = keyed.map(|keyed| keyed.claim(0, keyed.request, 1).command());
    let event = command(&event, verb.reach(), is_stored);
    let commands = claim.into_iter().chain([event]).collect();
    let problem = |error| Problem::from(error).saying(sentence(error, keyed.is_some()));
    let applied = append(&*replicated.log, commands, wait)
        .await
        .map_err(problem)?;
    let result = applied.results.last().unwrap_or(&CommandResult::None);
    let Some(receipt) = Receipt::of_nodes(api.router(), &applied, result, when) else {
        return match keyed {
            Some(keyed) => replicated.answer_repeat(api, keyed).await,
            None => Err(problem(AppendError::Unknown)),
        };
    };
    api.published.one(verb, receipt.online());
    api.published.latency.record_shared(begun.elapsed());
    let receipt = receipt.to_json();
    if let Some(keyed) = &keyed {
        replicated.share_answer(keyed.key, keyed.request, code, &receipt);
    }
    Ok(answer(code, receipt.into()))
}

impl Keyed {
    /// Returns what claims the key for a part of the request.
    pub(crate) const fn claim(&self, part: u32, content: Digest, commands: u32) -> KeyPiece {
        KeyPiece::Claim {
            key: self.key,
            part,
            content,
            commands,
        }
    }
}

impl Replicated {
    /// Returns the answer that the first request with a key got on any node, if it is known.
    fn answer_again(&self, keyed: &Keyed) -> Option<Answered> {
        let answer = self.shared.answer(&keyed.key)?;
        Some(answer.again(keyed.request))
    }

    /// Answers a request whose event an earlier one with the key has published. The first answer
    /// may still be on its way; if its node is gone, it never comes.
    async fn answer_repeat(&self, api: &Api, keyed: Keyed) -> Answered {
        let Some(claim) = self.shared.claim(keyed.key, 0) else {
            return Err(Problem::from(AppendError::Unknown));
        };
        if claim.content != keyed.request {
            return Err(of_another());
        }
        let deadline = Instant::now() + FIRST_ANSWER_WAIT;
        while Instant::now() < deadline {
            if let Some(answer) = self.answer_again(&keyed) {
                return answer;
            }
            sleep(FIRST_ANSWER_INTERVAL).await;
        }
        let id = api.router().event_id(claim.first.number()).to_string();
        // Nothing but the id is known.
        let receipt = json!({ "id": id }).to_string();
        Ok(again(StatusCode::ACCEPTED, receipt.into()))
    }

    /// Tells all nodes the answer to a request with a key. One that is too long is not kept: a
    /// repeat is then answered anew.
    pub(crate) fn share_answer(
        &self,
        key: Digest,
        request: Digest,
        status: StatusCode,
        body: &[u8],
    ) {
        let answer = KeyPiece::Answer {
            key,
            request,
            status: status.as_u16(),
            body: String::from_utf8_lossy(body).into_owned(),
        };
        let command = answer.command();
        if command.check().is_ok() {
            self.log.append(vec![command], Wait::Logged, Box::new(drop));
        }
    }
}
