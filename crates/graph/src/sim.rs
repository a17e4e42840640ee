//! A durable graph on a simulated disk, whose writer takes a step when it is told.
//!
//! For simulations: no part of a release.

mod disk;

use std::fmt;
use std::sync::Arc;

pub use disk::{Faults, SimDisk};

use crate::graph::Graph;
use crate::memory::Memory;
use crate::store::{Disk, Nothing, OpenError, Refusal, Store, fill};
use crate::writer::Work;

/// What stands for the path of the file in errors.
const NAME: &str = "a simulated disk";

/// The writer of a graph, without its thread. Owned by whoever lets it take its steps.
pub struct SimWriter(Work);

impl fmt::Debug for SimWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimWriter").finish_non_exhaustive()
    }
}

impl SimWriter {
    /// Takes what waits, as much as belongs into one commit, makes it durable, and answers. False
    /// if there was nothing to do.
    pub fn step(&mut self) -> bool {
        self.0.step()
    }
}

/// Opens the graph on a disk, or makes an empty one if the disk is empty. Its journal is folded
/// into the blocks as soon as it has `pending_min` edges.
///
/// # Errors
///
/// When the file is damaged, or the disk fails.
pub fn open(disk: &Arc<SimDisk>, pending_min: usize) -> Result<(Graph, SimWriter), OpenError> {
    let shared: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    let opened = (|| -> Result<(Store, Memory), Refusal> {
        if shared.len()? == 0 {
            fill(Arc::clone(&shared), Nothing)?;
        }
        Store::open(shared)
    })();
    let (mut store, memory) = opened.map_err(|refusal| refusal.of(NAME.into()))?;
    store.fold_at(pending_min);
    let (graph, work) = Graph::without_thread(store, memory);
    Ok((graph, SimWriter(work)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Change, Id};

    fn subscribe(graph: &Graph, subscriber: u32) {
        let change = Change::Subscribe {
            subscriber: Id::from(subscriber),
            subject: Id::from(0),
        };
        graph.submit(vec![change], |_| {});
    }

    #[test]
    fn what_no_step_has_written_is_lost_with_the_process() {
        let disk = SimDisk::holding(Vec::new());
        let (graph, mut writer) = open(&disk, 4).unwrap();
        subscribe(&graph, 1);
        assert!(writer.step());
        assert!(!writer.step());
        subscribe(&graph, 2);
        assert_eq!((graph.counts().edges, graph.waiting_changes()), (1, 1));
        let left = disk.left_by_killed();
        let (found, _writer) = open(&left, 4).unwrap();
        assert_eq!(found.counts().edges, 1);
    }

    #[test]
    fn a_process_that_is_killed_within_any_write_leaves_a_whole_graph() {
        let writes = {
            let disk = SimDisk::holding(Vec::new());
            let (graph, mut writer) = open(&disk, 4).unwrap();
            let before = disk.writes();
            for subscriber in 1..10 {
                subscribe(&graph, subscriber);
                while writer.step() {}
            }
            before + 1..=disk.writes()
        };
        assert!(writes.clone().count() > 20);
        for at in writes {
            let disk = SimDisk::holding(Vec::new());
            let (graph, mut writer) = open(&disk, 4).unwrap();
            disk.set(Faults {
                killed_at: Some(at),
                ..Faults::default()
            });
            let mut made = 0;
            for subscriber in 1..10 {
                subscribe(&graph, subscriber);
                while writer.step() {}
                if disk.is_killed() {
                    break;
                }
                made += 1;
            }
            let left = disk.left_by_killed();
            for content in [left.after_kill(), left.after_power_loss_torn_by(at)] {
                let (found, _writer) = open(&SimDisk::holding(content), 4).unwrap();
                let edges = found.counts().edges;
                assert!((made..=made + 1).contains(&edges), "write {at}: {edges}");
            }
        }
    }
}
