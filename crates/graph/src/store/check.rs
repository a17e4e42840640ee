//! Check of the consistency of a graph on disk: of both directions, and of names with edges.
//!
//! Must never change anything.

use super::block::{Pair, other, owner, pair};
use super::snapshot::{Pairs, Snapshot, failed, id_of};
use crate::adjacency::Direction;
use crate::error::GraphError;
use crate::id::Id;
use crate::key::Key;

/// Maximum number of faults that are described; further ones are only counted.
const TOLD_MAX: usize = 20;

/// Result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// Number of edges among the subscriptions.
    pub edges: u64,
    /// Number of interned ids.
    pub names: u64,
    /// Number of faults.
    pub faults: u64,
    /// Descriptions of the first faults, each a sentence.
    pub told: Vec<String>,
}

impl Check {
    /// Returns whether there is no fault.
    pub const fn is_sound(&self) -> bool {
        self.faults == 0
    }

    fn fault(&mut self, sentence: impl FnOnce() -> String) {
        self.faults += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(sentence());
        }
    }
}

impl Snapshot {
    /// Compares both directions with each other, and names with edges. Takes eight bytes of memory
    /// for each edge.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or has a malformed block or row.
    pub fn check(&self) -> Result<Check, GraphError> {
        let names = self.names()?;
        let mut check = Check {
            names: names.len() as u64,
            ..Check::default()
        };
        check.check_unique_names(&names);
        let mut named = Named::new(&names);

        let mut back = Vec::new();
        let mut subscribers = self.pairs(Direction::Subscribers)?;
        check.ascending(&mut subscribers, "subscribers", |edge| {
            back.push(pair(other(edge), owner(edge)));
        })?;
        back.sort_unstable();
        let mut back = back.into_iter().peekable();

        let mut missing = Vec::new();
        let mut subscriptions = self.pairs(Direction::Subscriptions)?;
        let mut edges = 0;
        check.ascending(&mut subscriptions, "subscriptions", |edge| {
            edges += 1;
            named.meet(edge);
            while let Some(only) = back.next_if(|&back| back < edge) {
                named.meet(only);
                missing.push((only, Direction::Subscriptions));
            }
            if back.next_if_eq(&edge).is_none() {
                missing.push((edge, Direction::Subscribers));
            }
        })?;
        for only in back {
            named.meet(only);
            missing.push((only, Direction::Subscriptions));
        }
        check.edges = edges;
        for (edge, direction) in missing {
            check.fault(|| only_one(edge, direction, &names));
        }
        named.judge(&mut check, &names);
        Ok(check)
    }
}

impl Check {
    /// Walks over one direction and checks that its pairs ascend and that each connects two ids.
    fn ascending(
        &mut self,
        pairs: &mut Pairs<'_>,
        direction: &str,
        mut each: impl FnMut(Pair),
    ) -> Result<(), GraphError> {
        let mut last = None;
        while let Some(edge) = pairs.next_pair().map_err(failed)? {
            if last >= Some(edge) {
                self.fault(|| format!("the {direction} are out of order at {edge:#018x}"));
            }
            if owner(edge) == other(edge) {
                self.fault(|| format!("key {} is in its own {direction}", owner(edge)));
            }
            last = Some(edge);
            each(edge);
        }
        Ok(())
    }

    /// Checks that no two keys have the same id.
    fn check_unique_names(&mut self, names: &[(Key, Id)]) {
        let mut ids: Vec<&Id> = names.iter().map(|(_, id)| id).collect();
        ids.sort_unstable();
        for twice in ids.windows(2).filter(|pair| pair[0] == pair[1]) {
            self.fault(|| format!("two keys have the name {:?}", twice[0].to_string()));
        }
    }
}

/// Interned keys, and which of them have edges.
struct Named {
    /// Keys with a name, ascending, and whether each has an edge.
    keys: Vec<(u32, bool)>,
    nameless: Vec<u32>,
}

impl Named {
    fn new(names: &[(Key, Id)]) -> Self {
        Self {
            keys: names.iter().map(|(key, _)| (key.number(), false)).collect(),
            nameless: Vec::new(),
        }
    }

    fn meet(&mut self, edge: Pair) {
        for number in [owner(edge), other(edge)] {
            if Key::from_number(number).is_own() {
                continue;
            }
            match self.keys.binary_search_by_key(&number, |&(key, _)| key) {
                Ok(at) => self.keys[at].1 = true,
                Err(_) => self.nameless.push(number),
            }
        }
    }

    fn judge(mut self, check: &mut Check, names: &[(Key, Id)]) {
        self.nameless.sort_unstable();
        self.nameless.dedup();
        for number in self.nameless {
            check.fault(|| format!("key {number} has edges but no name"));
        }
        for ((_, id), _) in names.iter().zip(&self.keys).filter(|(_, key)| !key.1) {
            check.fault(|| format!("{:?} has a name but no edge", id.to_string()));
        }
    }
}

fn only_one(edge: Pair, missing_in: Direction, names: &[(Key, Id)]) -> String {
    let (subscriber, subject) = (id_of(names, owner(edge)), id_of(names, other(edge)));
    match missing_in {
        Direction::Subscriptions => format!(
            "{subscriber} is a subscriber of {subject}, which is not among its subscriptions"
        ),
        Direction::Subscribers => format!(
            "{subject} is a subscription of {subscriber}, which is not among its subscribers"
        ),
    }
}

#[cfg(test)]
mod tests;
