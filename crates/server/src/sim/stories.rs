//! Single scenarios, each of which tests a promise to clients or operators.

mod doors;
mod refused;
mod hosts;
mod requests;
mod conformance;
mod streams;
mod encodings;
mod crowd;
mod resumes;
mod polls;
mod slow;
mod buffers;
mod policies;
mod catch_up;
mod losses;
mod latencies;
mod health;
mod access_log;
mod endings;
mod observed;
mod reload;
mod proxies;
mod proxy_headers;
mod plain;
mod access;
mod leases;
mod tickets;
mod refusals;
mod unknown_keys;
mod login_checks;
mod websockets;
mod websocket_strangers;
mod websocket_identities;
mod client_publish;
mod presence;
mod presence_nodes;

use std::time::Duration;

use super::world::World;
use crate::listener::ListenerKind;
use crate::settings::LiveSettings;

/// A world without heartbeats: these would wake the worker every tenth of a second, and hide a
/// deadline that it forgot.
fn world() -> World {
    world_with(quiet())
}

fn world_with(settings: LiveSettings) -> World {
    World::new(ListenerKind::Plain, settings)
}

/// A world whose server keeps a history.
fn with_history(settings: LiveSettings) -> World {
    let limits = history::Limits {
        bytes: 1 << 20,
        age_seconds: None,
    };
    World::with_history(ListenerKind::Plain, settings, limits)
}

pub(super) fn quiet() -> LiveSettings {
    LiveSettings {
        heartbeat: Duration::ZERO,
        ..LiveSettings::default()
    }
}
