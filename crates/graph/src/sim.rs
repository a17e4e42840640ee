//! A durable graph on a simulated disk, whose writer takes a step when it is told.
//!
//! For simulations: no part of a release.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use simulated::disk::{self, File};

use crate::graph::Graph;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::store::{Disk, Nothing, OpenError, Refusal, Store, fill};
use crate::writer::Work;

/// What stands for the path of the file in errors.
const NAME: &str = "a simulated disk";

impl Limits {
    /// Small bounds, which a handful of changes reaches.
    pub(crate) const SMALL: Self = Self {
        group_additions_max: 8,
        changed_max: 4,
        pending_min: 256,
        blocks_per_commit_min: 1,
        block_bytes_max: 256,
        checkpoints_max: 4,
        edges_waiting_max: 64,
        commit_interval: Duration::from_millis(2),
        edges_per_commit: 32,
    };
}

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
pub fn open(disk: &disk::Disk, pending_min: usize) -> Result<(Graph, SimWriter), OpenError> {
    let shared: Arc<dyn Disk> = Arc::new(disk.file());
    let limits = Limits {
        pending_min,
        ..Limits::SMALL
    };
    let opened = (|| -> Result<(Store, Memory), Refusal> {
        if shared.len()? == 0 {
            fill(Arc::clone(&shared), Nothing, &limits)?;
        }
        Store::open(shared, limits)
    })();
    let (store, memory) = opened.map_err(|refusal| refusal.of(NAME.into()))?;
    let (graph, work) = Graph::without_thread(store, memory);
    Ok((graph, SimWriter(work)))
}

impl Disk for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync()
    }

    fn forget_cached(&self) {
        self.forget_cached();
    }

    fn has_room(&self, bytes: u64) -> io::Result<()> {
        self.reserve(bytes)
    }
}

#[cfg(test)]
mod tests {
    use simulated::disk::{self, Faults, Nth};

    use super::*;
    use crate::{Answer, Change, GraphError, Id};

    fn subscribe(graph: &Graph, subscriber: u32) {
        let change = Change::Subscribe {
            subscriber: Id::from(subscriber),
            subject: Id::from(0),
        };
        graph.submit(vec![change], |_| {});
    }

    #[test]
    fn what_no_step_has_written_is_lost_with_the_process() {
        let disk = disk::Disk::from(Vec::new());
        let (graph, mut writer) = open(&disk, 4).unwrap();
        subscribe(&graph, 1);
        assert!(writer.step());
        assert!(!writer.step());
        subscribe(&graph, 2);
        assert_eq!((graph.counts().edges, graph.waiting_changes()), (1, 1));
        let left = disk.after_kill();
        let (found, _writer) = open(&left, 4).unwrap();
        assert_eq!(found.counts().edges, 1);
    }

    #[test]
    fn changes_beyond_a_bound_are_refused_until_others_are_answered() {
        let disk = disk::Disk::from(Vec::new());
        let (graph, mut writer) = open(&disk, 4).unwrap();
        let change = Change::Subscribe {
            subscriber: Id::from(1),
            subject: Id::from(0),
        };
        graph.submit(vec![change.clone(); 65_536], |answer| {
            assert!(answer.iter().all(Result::is_ok));
        });
        let refused = GraphError::Busy { waiting: 65_536 };
        let (told, heard) = std::sync::mpsc::sync_channel(2);
        let told_of_rows = told.clone();
        let tell = move |answer: Answer| drop(told.send(answer[0].clone().map(drop)));
        graph.submit(vec![change.clone()], tell);
        graph.set_rows(crate::rows::RowChanges::new(), move |answer| {
            drop(told_of_rows.send(answer))
        });
        let answers: Vec<_> = heard.try_iter().collect();
        assert_eq!(answers, [Err(refused.clone()), Err(refused)]);
        while writer.step() {}
        assert_eq!(graph.waiting_changes(), 0);
        graph.submit(vec![change], |answer| assert!(answer[0].is_ok()));
        assert!(writer.step());
    }

    #[test]
    fn a_large_change_is_made_in_commits_of_a_bounded_size() {
        let disk = disk::Disk::from(Vec::new());
        let (graph, mut writer) = open(&disk, 1 << 20).unwrap();
        let many = (1..=40_000).map(|subscriber| Change::Subscribe {
            subscriber: Id::from(subscriber),
            subject: Id::from(0),
        });
        graph.submit(many.collect(), |_| {});
        let mut before = 0;
        for most in [16_384, 32_768, 40_000] {
            assert!(writer.step());
            let edges = graph.counts().edges;
            assert!(edges > before && edges <= most, "{edges}, at most {most}");
            before = edges;
        }
        assert_eq!(before, 40_000);
    }

    #[test]
    fn a_process_that_is_killed_within_any_write_leaves_a_whole_graph() {
        let writes = {
            let disk = disk::Disk::from(Vec::new());
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
            let disk = disk::Disk::from(Vec::new());
            let (graph, mut writer) = open(&disk, 4).unwrap();
            disk.set(Faults {
                killed_at: Some(Nth::Write(at)),
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
            let left = disk.after_kill();
            for left in [left.clone(), left.after_power_loss(at)] {
                let (found, _writer) = open(&left, 4).unwrap();
                let edges = found.counts().edges;
                assert!((made..=made + 1).contains(&edges), "write {at}: {edges}");
            }
        }
    }
}
