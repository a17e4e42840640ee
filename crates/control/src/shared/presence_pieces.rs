//! Presence over nodes: which ids each node has, in the log.
//!
//! A node appends what has come to it and left it. A node that starts asks, and every other one
//! appends all of its ids, in slices. What could not be appended is appended later, as it is then.

use std::sync::Arc;

use graph::Id;
use presence::{Cause, IdEdge};
use replication::{Append, Wait};
use server::{Handle, PresenceLog};

use super::piece::PresencePiece;

/// Bytes of the ids in one command: a piece of shared state has 64 KiB, and an escaped character up
/// to six times its bytes.
const IDS_BYTES_MAX: usize = 8 << 10;

/// Places in one command: twenty digits and a comma each.
const PLACES_MAX: usize = 2_000;

/// Takes what a node has told.
pub(super) fn apply(piece: PresencePiece, server: &Handle, cause: Cause) {
    let Some(presence) = server.presence() else {
        return;
    };
    match piece {
        PresencePiece::Ask => presence.tell_nodes_all(),
        PresencePiece::Edges { online, offline } => {
            let edge = |online| move |id| IdEdge { id, online };
            let edges = online.into_iter().map(edge(true));
            let edges = edges.chain(offline.into_iter().map(edge(false)));
            presence.node_told(cause, edges.collect());
        }
        PresencePiece::Told { places } => presence.node_told_backend(cause.node, places),
    }
}

/// Way of presence into the log.
struct Way {
    log: Arc<dyn Append>,
    server: Handle,
}

impl PresenceLog for Way {
    fn tell_nodes(&self, edges: Vec<IdEdge>) {
        for edges in slices(edges) {
            let of = |online| {
                let edges = edges.iter().filter(move |edge| edge.online == online);
                edges.map(|edge| edge.id.clone()).collect()
            };
            let (online, offline) = (of(true), of(false));
            let piece = PresencePiece::Edges { online, offline };
            let server = self.server.clone();
            let done = Box::new(move |result: Result<_, _>| {
                if let (Err(_), Some(presence)) = (result, server.presence()) {
                    presence.tell_nodes_again(edges);
                }
            });
            self.log.append(vec![piece.command()], Wait::Logged, done);
        }
    }

    fn ask_nodes(&self) {
        let server = self.server.clone();
        let done = Box::new(move |result: Result<_, _>| {
            if let (Err(_), Some(presence)) = (result, server.presence()) {
                presence.ask_nodes_again();
            }
        });
        let command = PresencePiece::Ask.command();
        self.log.append(vec![command], Wait::Logged, done);
    }

    fn told_backend(&self, places: Vec<u64>) {
        for places in places.chunks(PLACES_MAX) {
            let places = places.to_vec();
            let command = PresencePiece::Told { places }.command();
            // What the log does not take is told again by an heir, at the worst.
            self.log.append(vec![command], Wait::Logged, Box::new(drop));
        }
    }
}

/// Splits edges into slices of a command each.
fn slices(edges: Vec<IdEdge>) -> Vec<Vec<IdEdge>> {
    let mut slices: Vec<Vec<IdEdge>> = Vec::new();
    let mut bytes = IDS_BYTES_MAX;
    for edge in edges {
        bytes += match &edge.id {
            Id::Integer(_) => size_of::<u64>(),
            Id::Text(text) => text.len(),
        };
        if bytes > IDS_BYTES_MAX {
            bytes = 0;
            slices.push(Vec::new());
        }
        if let Some(slice) = slices.last_mut() {
            slice.push(edge);
        }
    }
    slices
}

/// Lets the nodes of a cluster know which ids this one has, and this one which ids the others have.
/// Does nothing where presence is not kept.
pub(crate) fn join(log: &Arc<dyn Append>, server: &Handle) {
    if let Some(presence) = server.presence() {
        presence.tell_nodes_with(Box::new(Way {
            log: Arc::clone(log),
            server: server.clone(),
        }));
    }
}
