//! Peers of an Erlang node that do anything at all: handshakes, messages, pieces, silence, ends.
//! What the node says is of the protocol, what it holds is no more than came, and nothing of a peer
//! that is gone stays.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| erlang::run_script(data));
