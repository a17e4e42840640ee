//! The table of requests that all listeners are tested with, through the whole worker.

use super::world;
use crate::sim::world::World;

#[allow(
    dead_code,
    unreachable_pub,
    reason = "tests of other crates include it"
)]
#[path = "../../../../../harness/tests/conformance/table.rs"]
mod table;

#[test]
fn each_request_of_the_table_has_its_outcome_at_every_split() {
    for row in table::rows() {
        let (input, expected) = (row.input(), row.public.with_marker(404));
        let mut world = world();
        for split in table::splits(&input) {
            let client = world.connect_with(&input[..split], usize::MAX, usize::MAX);
            world.run_until_idle();
            if !has_ended(&world, client) {
                world.say(client, &input[split..]);
                world.run_until_idle();
            }
            let (name, text) = (row.name, world.text(client));
            let statuses = table::statuses(&text);
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
    let peer = &network.peers[client];
    peer.worker_ended || peer.closed
}
