//! Events that the client of a session publishes: whether it may, and how many.

use std::sync::Arc;

use auth::UnixSeconds;
use reactor::{Driver, SlotKey, Source};
use router::Event;
use wire::frame::Position;
use wire::head::Request;
use wire::notice::Notice;

use super::sessions::Sessions;
use super::websocket::{self, Publication};
use crate::client_address;
use crate::client_publish::Answer;
use crate::identity::Denial;
use crate::limits::CLIENT_MESSAGES_WINDOW;
use crate::mail::Published;
use crate::stats::Metric;
use crate::table::ConnectionTable;

/// Reason why an event is refused at once: what it counts as, and a sentence for the client.
type Refusal = (Metric, String);

impl Sessions {
    /// Hands an event over to be published; its answer comes by mail.
    ///
    /// # Errors
    ///
    /// A sentence for the client, when the event is refused at once.
    pub(crate) fn publish<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        publication: Publication,
    ) -> Result<(), String> {
        let published = self.try_publish(table, key, publication);
        published.map_err(|(metric, reason)| {
            table.stats.add(metric, 1);
            reason
        })
    }

    fn try_publish<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        Publication { event, reference }: Publication,
    ) -> Result<(), Refusal> {
        let denied = |reason: &str| (Metric::ClientPublishesDenied, reason.to_owned());
        let limited = |reason: String| (Metric::ClientPublishesLimited, reason);
        let Some(publishing) = self.shared.client_publishing.get() else {
            return Err(denied(
                "this server takes no events from clients; its operator can allow them with \
                 --client-publish",
            ));
        };
        if self.shared.is_draining() {
            return Err((
                Metric::ClientPublishesFailed,
                "the event is not published: the server is shutting down; publish it after you \
                 have come back"
                    .to_owned(),
            ));
        }
        let event = event.map_err(|reason| (Metric::ClientPublishesInvalid, reason))?;
        self.check_right(table, key, &event)?;
        let (bytes, most) = (event.payload.bytes().len(), publishing.event_bytes_max);
        if bytes > most {
            let reason = format!("the event has {bytes} bytes; at most {most} are possible");
            return Err((Metric::ClientPublishesInvalid, reason));
        }
        let seconds = CLIENT_MESSAGES_WINDOW.as_secs();
        let limits = table.limits;
        let session_max = limits.client_publishes_max;
        let address_max = limits.address_publishes_max;
        if !self.websockets.count_publish(key.index, limits) {
            return Err(limited(format!(
                "a session publishes at most {session_max} events in {seconds} s; try \
                 again later"
            )));
        }
        let source = self.websockets.source(key.index).or_else(|| {
            let origin = table.origin(key)?;
            Some(Source::from(origin.address().ip()))
        });
        let now = table.clock.unix_seconds;
        if !source.is_some_and(|source| publishing.rates.count(source, now, address_max)) {
            return Err(limited(format!(
                "the clients of one address publish at most {address_max} events in \
                 {seconds} s; try again later"
            )));
        }
        let answer = Answer::new(Arc::clone(self.shared.mailbox(self.worker)), key, reference);
        match publishing
            .queue
            .push(event, answer, limits.client_events_max)
        {
            true => Ok(()),
            false => Err(limited(
                "the event is not published: too many events of clients wait to be; try again in \
                 a second"
                    .to_owned(),
            )),
        }
    }

    /// Tells the client of a session what became of an event that it has published.
    pub(crate) fn published<D: Driver>(
        &self,
        table: &mut ConnectionTable<D>,
        published: &Published,
    ) {
        let reference = published.reference.as_deref();
        match published.result {
            Ok(position) => {
                table.stats.add(Metric::ClientPublishesAccepted, 1);
                let epoch = self.shared.router.epoch();
                let position = Position { epoch, position };
                let notice = Notice::Published {
                    position,
                    reference,
                };
                websocket::notify(table, published.key, &notice);
            }
            Err(error) => {
                table.stats.add(Metric::ClientPublishesFailed, 1);
                websocket::refuse(table, published.key, &error.to_string(), reference);
            }
        }
    }

    /// Checks that the client of a session may publish about the subject of an event.
    fn check_right<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        event: &Event,
    ) -> Result<(), Refusal> {
        let denied = |reason: &str| Err((Metric::ClientPublishesDenied, reason.to_owned()));
        let Some(identity) = self.websockets.identity(key.index) else {
            return denied("only clients with a token may publish");
        };
        if !identity.may_publish(&event.subject.to_string()) {
            return denied(
                "the token does not allow to publish about this id; its issuer can list the id in \
                 the claim encke.publish",
            );
        }
        let now = UnixSeconds(table.clock.unix_seconds);
        let names = std::iter::empty();
        match self
            .shared
            .identity
            .check_client(Some(identity), names, now)
        {
            Ok(()) => Ok(()),
            Err(Denial::Banned) => denied("the client is kept away from this server for a while"),
            Err(_) => denied("the token was revoked"),
        }
    }

    /// Keeps where the client of a new session is, if it comes through a trusted proxy and may
    /// publish.
    pub(super) fn note_source<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
    ) {
        if self.shared.client_publishing.get().is_none() {
            return;
        }
        let policy = &table.live.policy;
        let Some(origin) = table.origin(key).filter(|origin| origin.is_trusted(policy)) else {
            return;
        };
        let client = client_address::of_request(policy, request, origin);
        self.websockets.set_source(key.index, Source::from(client));
    }
}
