//! The webhook of the running server: what its sessions are told of, and its end.

use std::sync::Arc;

use presence::IdEdge;
use server::{Handle, ObservedSession, Observer, Presence, SessionObserver};
use webhook::{Event, Queue, Webhook};

use crate::config::{self, WebhookConfig};
use crate::failure::Failure;

/// Puts the beginnings and ends of sessions into the queue of a webhook.
struct Sessions(Arc<Queue>);

/// A webhook that runs, and the queue that it sends.
type Started = (Arc<Webhook>, Arc<Queue>);

/// Starts the webhook, if there is one.
pub(super) fn start(
    config: Option<&WebhookConfig>,
    node: Option<&str>,
) -> Result<Option<Started>, Failure> {
    let Some(WebhookConfig { settings, types }) = config else {
        return Ok(None);
    };
    let queue = Queue::new(*types, node);
    let webhook = Webhook::start(settings.clone(), Arc::clone(&queue));
    let webhook = webhook
        .map_err(|error| Failure::failed(format_args!("the webhook cannot be started: {error}")))?;
    queue.push(Event::Start, config::unix_time().as_secs());
    Ok(Some((Arc::new(webhook), queue)))
}

/// Returns the observer that fills `queue`; nothing if sessions are not wanted.
pub(super) fn observer(queue: &Arc<Queue>) -> Option<Observer> {
    let types = queue.types();
    let is_wanted = types.connects || types.disconnects;
    is_wanted.then(|| Observer::new(Arc::new(Sessions(Arc::clone(queue)))))
}

/// Puts edges into the queue of the webhook from now on, if they are wanted: in a cluster, those
/// that this node is to send.
pub(super) fn follow(server: &Handle, is_node: bool, queue: &Arc<Queue>) {
    let Some(presence) = server.presence().filter(|_| queue.types().presence) else {
        return;
    };
    if is_node {
        return follow_log(server, presence, queue);
    }
    let queue = Arc::clone(queue);
    presence.feed().observe(Box::new(move |edges| {
        let time = config::unix_time().as_secs();
        for IdEdge { id, online } in edges {
            let online = *online;
            queue.push(Event::Presence { id, online }, time);
        }
    }));
}

fn follow_log(server: &Handle, presence: &Presence, queue: &Arc<Queue>) {
    let of_queue = server.clone();
    let on_told = move |place| {
        if let Some(presence) = of_queue.presence() {
            presence.told_backend(place);
        }
    };
    queue.follow_log(server.router().epoch(), Arc::new(on_told));
    let queue = Arc::clone(queue);
    presence.tell_backend_with(Box::new(move |place, edges| {
        let time = config::unix_time().as_secs();
        let edges = edges.iter().map(|edge| (&edge.id, edge.online));
        queue.push_edges(place, edges, time);
    }));
}

impl SessionObserver for Sessions {
    fn session_began(&self, session: &ObservedSession<'_>) {
        if self.0.types().connects {
            let event = Event::Connect {
                session: &format!("{:?}", session.session),
                ids: session.ids,
                transport: session.transport,
            };
            self.0.push(event, session.time);
        }
    }

    fn session_ended(&self, session: &ObservedSession<'_>, reason: &'static str) {
        if self.0.types().disconnects {
            let event = Event::Disconnect {
                session: &format!("{:?}", session.session),
                ids: session.ids,
                transport: session.transport,
                reason,
            };
            self.0.push(event, session.time);
        }
    }
}
