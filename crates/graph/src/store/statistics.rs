//! Statistics of a graph on disk.

use super::block::{other, owner};
use super::snapshot::{Snapshot, failed, id_of};
use crate::adjacency::Direction;
use crate::error::GraphError;
use crate::id::Id;

/// Statistics of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statistics {
    /// Number of edges, each counted once.
    pub edges: u64,
    /// Number of ids with an edge.
    pub ids: u64,
    /// Number of those ids that are interned: texts, and integers of 2^31 and more.
    pub names: u64,
    /// Number of edges in the journal whose changes are not in the blocks yet.
    pub journalled: u64,
    /// Number of blocks of both directions.
    pub blocks: u64,
    /// Subject with the most subscribers, and their number.
    pub most_subscribers: Option<(Id, u64)>,
    /// Subscriber with the most subscriptions, and their number.
    pub most_subscriptions: Option<(Id, u64)>,
}

impl Snapshot {
    /// Counts the contents of the graph. Takes four bytes of memory for each id.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn statistics(&self) -> Result<Statistics, GraphError> {
        let names = self.names()?;
        let name = |(number, count): (u32, u64)| (id_of(&names, number), count);
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

/// Counts of one direction.
#[derive(Default)]
struct Owners {
    edges: u64,
    /// All owners, ascending.
    owners: Vec<u32>,
    most: Option<(u32, u64)>,
}

/// Returns the size of the union of two ascending lists.
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
