//! The table of requests that all listeners are tested with, through the whole worker.

use super::world;
use crate::sim::world::World;

#[allow(
    dead_code,
    unreachable_pub,
    reason = "tests of other crates include it"
)]
#[path = "../../../../../tests/conformance/table.rs"]
mod table;

/// Most splits of one row. Rows of thousands of bytes are split at every so many of them.
const SPLITS_MAX: usize = 400;

#[test]
fn each_request_of_the_table_has_its_outcome_at_every_split() {
    for row in table::rows() {
        let input = match row.head {
            "more" => row.bytes.clone(),
            _ => [&row.bytes, table::MARKER].concat(),
        };
        let mut expected = row.public.statuses.clone();
        expected.extend(row.public.kept.then_some(404));
        let mut world = world();
        for split in (0..input.len()).step_by(input.len() / SPLITS_MAX + 1) {
            let client = world.connect_with(&input[..split], usize::MAX, usize::MAX);
            world.run_until_idle();
            if !has_ended(&world, client) {
                world.say(client, &input[split..]);
                world.run_until_idle();
            }
            let (name, text) = (row.name, world.text(client));
            let statuses = text.split("HTTP/1.1 ").skip(1);
            // A reason may name the version as well.
            let statuses: Vec<u16> = statuses
                .filter_map(|answer| answer.get(..3)?.parse().ok())
                .collect();
            assert_eq!(statuses, expected, "{name}, split at {split}: {text}");
            // The marker asks for the end; what is not whole is waited for.
            let ended = has_ended(&world, client);
            assert_eq!(ended, row.head != "more", "{name}, split at {split}");
            world.net.borrow_mut().end(client);
            world.run_until_idle();
        }
        world.assert_empty();
    }
}

fn has_ended(world: &World, client: usize) -> bool {
    let network = world.net.borrow();
    let pipe = &network.pipes[client];
    pipe.server_ended || pipe.closed
}
