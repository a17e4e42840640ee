//! What goes wrong with the disk and the process.

use eventlog::SyncPolicy;
use simulated::Dice;
use simulated::disk::{Disk, Faults, Nth};

use super::presence::Attendance;
use super::{Happened, Life, NAMES, all_edges, epoch, id};
use crate::lives::process::{AGE_SECONDS, Process, Storage};

impl Life {
    /// The disk begins to fail, or is well again.
    pub(super) fn fail_disk(&mut self, dice: &mut Dice) {
        let well = Faults::default();
        let soon = 1 + dice.roll(4) as u64;
        let seed = dice.roll(1 << 20) as u64;
        let faults = match dice.roll(7) {
            0 => Faults {
                power_lost_at: Some(self.storage.disk.syncs() + soon),
                torn_by: (seed > 1 << 18).then_some(seed),
                ..well
            },
            1 => Faults {
                killed_at: Some(Nth::Write(self.storage.disk.writes() + soon * 3)),
                ..well
            },
            2..=3 => Faults {
                failed_at: Some(Nth::Sync(self.storage.disk.syncs() + soon)),
                ..well
            },
            4 => Faults {
                room: Some(self.storage.disk.used()),
                ..well
            },
            5 => Faults {
                writes_fail: true,
                ..well
            },
            _ => well,
        };
        self.note(|| format!("the disk: {faults:?}"));
        self.storage.disk.set(faults);
        if let Some((log, _)) = &self.storage.log
            && dice.roll(3) == 0
        {
            let soon = Some(Nth::Operation(log.operations() + soon));
            let faults = match dice.roll(6) {
                0..=2 => Faults {
                    killed_at: soon,
                    ..well
                },
                3 => Faults {
                    failed_at: soon,
                    ..well
                },
                4 => Faults {
                    room: Some(dice.roll(4000) as u64),
                    ..well
                },
                _ => Faults {
                    all_fail: true,
                    ..well
                },
            };
            log.set(faults);
            self.has_log_failed |= faults.killed_at.is_none();
            self.note(|| format!("the disk of the history: {faults:?}"));
        }
    }

    /// The process is killed or the power lost, now and then.
    pub(super) fn crash_now(&mut self, dice: &mut Dice) {
        let seed = dice.roll(1 << 20) as u64;
        match dice.roll(6) {
            0 => self.kill(),
            1 => {
                let left = self.storage.disk.after_power_loss(seed);
                self.lose_power(left);
            }
            _ => {}
        }
    }

    /// Crashes if a disk says so.
    pub(super) fn crash_if_due(&mut self) -> bool {
        let is_log_dead = self
            .storage
            .log
            .as_ref()
            .is_some_and(|(log, _)| log.is_killed());
        if self.storage.disk.is_frozen() {
            self.lose_power(self.storage.disk.after_power_loss(None));
        } else if is_log_dead && self.clock.is_multiple_of(2) {
            self.lose_power(self.storage.disk.after_power_loss(self.clock));
        } else if self.storage.disk.is_killed() || is_log_dead {
            self.happens(Happened::KilledInWrite);
            self.kill();
        } else {
            return false;
        }
        true
    }

    fn kill(&mut self) {
        self.note(|| "the process is killed".to_owned());
        self.happens(Happened::Killed);
        let storage = Storage {
            disk: self.storage.disk.after_kill(),
            log: (self.storage.log.as_ref()).map(|(log, sync)| (log.after_kill(), *sync)),
            boots: self.storage.boots,
        };
        self.restart(storage);
    }

    fn lose_power(&mut self, left: Disk) {
        self.note(|| "the power is lost".to_owned());
        self.happens(Happened::PowerLost);
        let log = self.storage.log.as_ref();
        let storage = Storage {
            disk: left,
            log: log.map(|(log, sync)| (log.after_power_loss(self.clock), *sync)),
            boots: self.storage.boots + 1,
        };
        self.restart(storage);
    }

    /// Starts the next process, with what the last one has left.
    fn restart(&mut self, storage: Storage) {
        self.count_replayed();
        // Some have read everything, others a part.
        for reader in 0..self.readers.len() {
            let mut dice = Dice::new(self.clock + reader as u64);
            self.collect(reader, &mut dice);
        }
        self.look_at_unanswered();
        self.judge_processes();
        self.clients.clear();
        self.nodes.clear();
        self.attendance = Attendance::default();
        let name = epoch(self.runs);
        self.runs += 1;
        let has_power_failed = storage.boots != self.storage.boots;
        self.storage = storage;
        self.process = Process::start(&self.storage, &name);
        let router = self.process.server.handle().router();
        router.tick(self.seconds);
        let head = router.head().unwrap_or_default();
        self.judge_history(has_power_failed);
        self.forget_process();
        self.find_edges(head);
        self.connect_publishers();
    }

    /// Checks that the history has what receipts have told to be stored. Events that were not leave
    /// a gap, and what is before it may be gone for clients.
    fn judge_history(&mut self, has_power_failed: bool) {
        let has_failed = std::mem::take(&mut self.has_log_failed);
        if has_failed {
            self.happens(Happened::EndedWithAGap);
        }
        if has_failed || self.process.is_lossy {
            self.published.iter_mut().for_each(|it| it.second = None);
        }
        let Some((_, sync)) = &self.storage.log else {
            return;
        };
        if self.process.is_lossy {
            let may_lose = has_power_failed && !matches!(sync, SyncPolicy::Receipt);
            assert!(may_lose || has_failed, "events with receipts may be lost");
            return;
        }
        let left = self.process.server.left();
        let ended = self.runs - 2;
        let of_ended = || self.published.iter().filter(|it| it.run == ended);
        let stored = of_ended().filter(|it| it.is_on_disk);
        let last_stored = stored.map(|it| it.posted.position).max().unwrap_or(0);
        for published in of_ended().filter(|it| it.posted.position > 0 && !it.is_on_disk) {
            // A later one is on disk, and so is the gap before it.
            assert!(
                last_stored < published.posted.position || published.posted.position <= left,
                "{}, not stored at {}, has left no gap: all up to {left} have left",
                published.text,
                published.posted.position
            );
        }
        for published in self.published.iter().filter(|it| it.is_on_disk) {
            let is_due = |second| self.seconds < second + AGE_SECONDS;
            assert!(
                !published.second.is_some_and(is_due) || left < published.posted.position,
                "{}, stored at {}, has left the history, as all up to {left}",
                published.text,
                published.posted.position
            );
        }
    }

    /// Notes what clients and events have to do with the next process.
    fn forget_process(&mut self) {
        if self.storage.log.is_none() {
            // All know another server now.
            let epoch = self.process.epoch().to_owned();
            self.readers.iter_mut().for_each(|it| it.restart(&epoch));
            self.published.clear();
            return;
        }
        let is_lossy = self.process.is_lossy;
        let stored = self.published.iter().filter(|it| it.is_on_disk);
        let stored = stored
            .map(|it| it.posted.position)
            .max()
            .unwrap_or_default();
        for published in &mut self.published {
            let posted = &mut published.posted;
            // What is read again goes to those who follow now: since when is not stored.
            posted.readers = NAMES.into();
            posted.is_stored &= published.is_on_disk && !is_lossy;
            published.is_settled = true;
        }
        let acknowledged = if is_lossy { 0 } else { stored };
        self.readers
            .iter_mut()
            .for_each(|it| it.go_on(acknowledged));
    }

    /// Compares what the graph has after a crash with what it must have and may have.
    fn find_edges(&mut self, head: u64) {
        let mut found = 0;
        for edge in all_edges() {
            let graph = &self.process.graph;
            let keys = graph.find(&id(edge.0)).zip(graph.find(&id(edge.1)));
            let is_there = keys.is_some_and(|(one, other)| graph.is_subscribed(one, other));
            found += usize::from(is_there);
            match self.edges.find(edge, is_there, head) {
                Some(true) => self.happens(Happened::UnansweredKept),
                Some(false) => self.happens(Happened::UnansweredLost),
                None => {}
            }
        }
        let counts = self.process.graph.counts();
        assert_eq!(counts.edges, found, "subscriptions that nobody asked for");
    }
}
