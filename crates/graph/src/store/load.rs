//! Loading of a graph from its file into memory: both directions in parallel, then the journal,
//! then the names.
//!
//! Must never accept a graph whose directions differ or that has interned keys without a name.

use std::thread;

use redb::{Database, ReadTransaction, ReadableDatabase};

use super::block::{other, owner};
use super::blocks;
use super::error::Refusal;
use super::{journal, tables};
use crate::adjacency::filler::Filler;
use crate::adjacency::{Adjacency, Direction};
use crate::key::Key;
use crate::memory::Memory;

pub(super) fn load(database: &Database) -> Result<Memory, Refusal> {
    let memory = Memory::new();
    let (there, back) = (database.begin_read()?, database.begin_read()?);
    let (subscriptions, subscribers) = thread::scope(|scope| {
        let there = scope.spawn(|| fill(&there, Direction::Subscriptions, &memory.adjacency));
        let back = fill(&back, Direction::Subscribers, &memory.adjacency);
        (there.join().expect("loading does not panic"), back)
    });
    subscriptions?;
    subscribers?;
    // A sweep may have put the edges of a row into the blocks of only one direction.
    journal::read(&there, |_, entries| {
        for (edge, present) in entries {
            let (from, to) = (Key::from_number(owner(edge)), Key::from_number(other(edge)));
            memory.adjacency.set(from, to, present);
        }
    })?;
    let (subscriptions, subscribers) = memory.adjacency.count_again();
    if subscriptions != subscribers {
        return Err(Refusal::Torn(format!(
            "it has {subscriptions} subscriptions and {subscribers} subscribers, but the numbers \
             should be equal"
        )));
    }
    name(&there, &memory)?;
    Ok(memory)
}

fn fill(
    transaction: &ReadTransaction,
    direction: Direction,
    adjacency: &Adjacency,
) -> Result<(), redb::Error> {
    let table = transaction.open_table(tables::table(direction))?;
    let mut filler = Filler::new(adjacency, direction);
    blocks::scan(&table, |owner, others| filler.push(owner, others))?;
    filler.end();
    Ok(())
}

fn name(transaction: &ReadTransaction, memory: &Memory) -> Result<(), Refusal> {
    let mut named = 0;
    tables::read_names(transaction, |key, id| {
        let references = memory.adjacency.degree(key) as u64;
        named += 1;
        let restored = memory.dictionary.restore(key, &id, references);
        restored.map_err(|why| Refusal::Torn(format!("the name {id} {why}")))
    })?;
    let nameless = memory.adjacency.interned_ids().abs_diff(named);
    if nameless > 0 {
        return Err(Refusal::Torn(format!("{nameless} keys have no name")));
    }
    Ok(())
}
