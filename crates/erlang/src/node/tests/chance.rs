//! Peers that do anything at all.

use proptest::prelude::*;

use crate::sim::script::run_script;

proptest! {
    #[test]
    fn whatever_peers_do_the_node_keeps_its_laws(
        data in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        run_script(&data);
    }
}
