//! Single scenarios, each of which tests a promise to clients or operators.

mod doors;
mod refused;
mod hosts;
mod requests;
mod streams;
mod slow;
mod endings;
mod reload;
mod proxies;
mod plain;
mod access;
mod leases;
mod tickets;
mod refusals;
mod unknown_keys;

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

pub(super) fn quiet() -> LiveSettings {
    LiveSettings {
        heartbeat: Duration::ZERO,
        ..LiveSettings::default()
    }
}
