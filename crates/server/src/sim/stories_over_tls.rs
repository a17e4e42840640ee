//! The same scenarios, and some more, with clients that use TLS.

#[path = "stories/doors.rs"]
mod doors;
#[path = "stories/endings.rs"]
mod endings;
#[path = "stories/proxy_headers.rs"]
mod proxy_headers;
#[path = "stories/reload.rs"]
mod reload;
#[path = "stories/requests.rs"]
mod requests;
#[path = "stories/slow.rs"]
mod slow;
#[path = "stories/streams.rs"]
mod streams;
#[path = "stories/websockets.rs"]
mod websockets;
#[path = "stories/websocket_strangers.rs"]
mod websocket_strangers;

mod handshakes;
mod records;

use std::time::Duration;

use super::client;
use super::world::World;
use crate::listener::ListenerKind;
use crate::settings::LiveSettings;

fn world() -> World {
    world_with(quiet())
}

fn world_with(settings: LiveSettings) -> World {
    World::new(ListenerKind::Tls, settings)
}

/// A world whose server keeps a history.
fn with_history(settings: LiveSettings) -> World {
    let limits = history::Limits {
        bytes: 1 << 20,
        age_seconds: None,
    };
    World::with_history(ListenerKind::Tls, settings, limits)
}

fn quiet() -> LiveSettings {
    LiveSettings {
        heartbeat: Duration::ZERO,
        tls: Some(client::server_config()),
        ..LiveSettings::default()
    }
}
