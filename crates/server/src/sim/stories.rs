//! Single scenarios, each of which tests a promise to clients or operators.

mod doors;
mod requests;
mod streams;
mod slow;
mod endings;
mod reload;

use std::time::Duration;

use super::world::World;
use crate::settings::LiveSettings;

/// A world without heartbeats: these would wake the worker every tenth of a second, and hide a
/// deadline that it forgot.
fn world() -> World {
    World::new(quiet())
}

fn quiet() -> LiveSettings {
    LiveSettings {
        heartbeat: Duration::ZERO,
        ..LiveSettings::default()
    }
}
