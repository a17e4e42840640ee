//! Peers with random behaviour.

use proptest::prelude::*;

use crate::sim::script::run_script;

proptest! {
    #[test]
    fn the_node_keeps_its_invariants_whatever_peers_do(
        data in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        run_script(&data);
    }
}
