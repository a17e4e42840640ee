//! Conversation on one connection over a simulated network, for fuzzing.

use std::rc::Rc;
use std::sync::Arc;

use simulated::SimDriver;
use simulated::network::{Peer, connected_client, network};

use super::answer::Answer;
use super::connection_table::ConnectionTable;
use super::exchange::Exchange;
use super::metrics::WorkerCounters;

/// Sends the pieces from a client one after the other. Returns the bytes that it received, and
/// whether the server has ended its side.
pub fn hear(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let network = network(usize::MAX);
    let driver = SimDriver(Rc::clone(&network));
    let mut table = ConnectionTable::new(driver, Arc::new(WorkerCounters::default()));
    let (client, socket) = connected_client(&network, Peer::with(usize::MAX, usize::MAX));
    let key = table.insert(socket);
    table.watch(key).expect("the simulated poller has room");
    let answer = Answer::new(200, &[], b"hello").expect("a valid answer");
    let mut exchange = Exchange::new(answer);
    for piece in pieces {
        if !piece.is_empty() {
            network.borrow_mut().say(client, piece);
            while exchange.read(&mut table, key, false).more {}
        }
    }
    let peer = &network.borrow().peers[client];
    (peer.outbound.clone(), peer.worker_ended)
}
