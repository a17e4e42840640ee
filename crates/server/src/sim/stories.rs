//! Single stories, each a promise that a client or an operator relies on.

mod doors;
mod requests;
mod streams;
mod slow;
mod endings;

use super::world::World;
use crate::settings::Settings;

fn world() -> World {
    World::new(Settings::default())
}
