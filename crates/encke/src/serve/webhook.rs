//! The webhook of the server: which events of sessions it gets.

use std::sync::Arc;

use cli::failure::Failure;
use presence::IdEdge;
use server::{Handle, ObservedSession, Observer, Presence, SessionObserver};
use webhook::{Event, Queue, Webhook};

use crate::config::{self, Config, WebhookConfig};

/// Observer that queues the beginnings and ends of sessions for the webhook.
struct Sessions(Arc<Queue>);

/// A running webhook, and its queue.
pub(super) struct RunningWebhook {
    pub(super) webhook: Arc<Webhook>,
    queue: Arc<Queue>,
}

impl RunningWebhook {
    /// Starts the webhook, if it is configured.
    pub(super) fn start(config: &Config) -> Result<Option<Self>, Failure> {
        let Some(WebhookConfig { settings, types }) = &config.webhook else {
            return Ok(None);
        };
        let node = config.cluster.as_ref().map(|options| options.node.as_str());
        let queue = Queue::new(*types, node);
        let webhook = Webhook::start(settings.clone(), Arc::clone(&queue)).map_err(|error| {
            Failure::failed(format_args!("the webhook cannot be started: {error}"))
        })?;
        queue.push(Event::Start, config::unix_time().as_secs());
        Ok(Some(Self {
            webhook: Arc::new(webhook),
            queue,
        }))
    }

    /// Returns an observer that fills the queue; `None` if events of sessions are not configured.
    pub(super) fn observer(&self) -> Option<Observer> {
        let types = self.queue.types();
        let is_wanted = types.connects || types.disconnects;
        is_wanted.then(|| Observer::new(Arc::new(Sessions(Arc::clone(&self.queue)))))
    }

    /// Queues edges of presence from now on, if they are configured; in a cluster, those that this
    /// node reports.
    pub(super) fn follow(&self, server: &Handle, is_node: bool) {
        let Some(presence) = server.presence().filter(|_| self.queue.types().presence) else {
            return;
        };
        if is_node {
            return follow_log(server, presence, &self.queue);
        }
        let queue = Arc::clone(&self.queue);
        presence.feed().observe(Box::new(move |edges| {
            let time = config::unix_time().as_secs();
            for IdEdge { id, online } in edges {
                let online = *online;
                queue.push(Event::Presence { id, online }, time);
            }
        }));
    }
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
