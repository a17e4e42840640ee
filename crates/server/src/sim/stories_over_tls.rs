//! The same scenarios, and some more, with clients that use TLS.

#[path = "stories/doors.rs"]
mod doors;
#[path = "stories/endings.rs"]
mod endings;
#[path = "stories/reload.rs"]
mod reload;
#[path = "stories/requests.rs"]
mod requests;
#[path = "stories/slow.rs"]
mod slow;
#[path = "stories/streams.rs"]
mod streams;

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

fn quiet() -> LiveSettings {
    LiveSettings {
        heartbeat: Duration::ZERO,
        tls: Some(client::server_config()),
        ..LiveSettings::default()
    }
}
