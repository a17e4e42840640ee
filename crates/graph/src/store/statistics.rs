//! What is in a graph on disk, and what it takes.

use super::block::{other, owner};
use super::snapshot::{Snapshot, failed};
use crate::adjacency::Direction;
use crate::error::GraphError;
use crate::id::Id;
use crate::key::Key;

/// Statistics of a graph. Made for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statistics {
    /// Edges, each counted once.
    pub edges: u64,
    /// Ids with an edge.
    pub ids: u64,
    /// Ids of them that are text, or integers of 2^31 and more.
    pub names: u64,
    /// Edges in the journal, which the blocks do not show yet.
    pub journalled: u64,
    /// Blocks of both directions.
    pub blocks: u64,
    /// The subject with the most subscribers, and how many it has.
    pub most_subscribers: Option<(Id, u64)>,
    /// The subscriber with the most subscriptions, and how many it has.
    pub most_subscriptions: Option<(Id, u64)>,
}

impl Snapshot {
    /// Counts what is in the graph. Takes four bytes of memory an id.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn statistics(&self) -> Result<Statistics, GraphError> {
        let names = self.names()?;
        let name = |(number, count): (u32, u64)| {
            let key = Key::from_number(number);
            let id = match names.binary_search_by_key(&key, |&(key, _)| key) {
                Ok(at) => names[at].1.clone(),
                Err(_) => Id::from(number),
            };
            (id, count)
        };
        let subscriptions = self.owners(Direction::Subscriptions)?;
        let subscribers = self.owners(Direction::Subscribers)?;
        Ok(Statistics {
            edges: subscriptions.edges,
            ids: union(&subscriptions.owners, &subscribers.owners),
            names: names.len() as u64,
            journalled: self.journalled() as u64,
            blocks: self.blocks(Direction::Subscriptions)? + self.blocks(Direction::Subscribers)?,
            most_subscribers: subscribers.most.map(name),
            most_subscriptions: subscriptions.most.map(name),
        })
    }

    fn owners(&self, direction: Direction) -> Result<Owners, GraphError> {
        let mut owners = Owners::default();
        let mut pairs = self.pairs(direction)?;
        let mut run = 0;
        while let Some(edge) = pairs.next_pair().map_err(failed)? {
            debug_assert_ne!(owner(edge), other(edge));
            owners.edges += 1;
            if owners.owners.last() != Some(&owner(edge)) {
                owners.owners.push(owner(edge));
                run = 0;
            }
            run += 1;
            if owners.most.is_none_or(|(_, most)| run > most) {
                owners.most = Some((owner(edge), run));
            }
        }
        Ok(owners)
    }
}

/// One direction, counted.
#[derive(Default)]
struct Owners {
    edges: u64,
    /// Ascending, each once.
    owners: Vec<u32>,
    most: Option<(u32, u64)>,
}

/// How many numbers are in either of two lists that ascend.
fn union(one: &[u32], two: &[u32]) -> u64 {
    let mut two = two.iter().peekable();
    let mut both = 0;
    for number in one {
        while two.next_if(|&other| other < number).is_some() {
            both += 1;
        }
        let _ = two.next_if_eq(&number);
        both += 1;
    }
    both + two.count() as u64
}
