//! What must be so in the end, when the faults have stopped, and when everybody has gone.

use std::time::Duration;

use server::sim::ClientState as State;
use simulated::Dice;
use simulated::disk::Faults;

use super::{Life, NAMES, PUBLISHERS, all_edges, id};
use crate::lives::process::{AGE_SECONDS, WORKERS, open};

impl Life {
    /// No fault happens any more, and whoever has not spoken or read goes on.
    pub(in super::super) fn heal(&mut self) {
        self.storage.disk.set(Faults::default());
        if let Some((log, _)) = &self.storage.log {
            log.set(Faults::default());
        }
        self.say_all();
        self.process.server.make_all_room();
        self.heal_nodes();
        self.rest();
        // At once, and not when they are told something else.
        self.assert_nodes_are_answered();
    }

    /// All publishers and nodes are answered.
    fn settle(&mut self) {
        self.say_all();
        self.rest();
        for nth in 0..PUBLISHERS {
            let asked = &self.publishers[nth].asked;
            assert!(asked.is_none(), "publisher {nth} waits for its answer");
        }
        self.assert_nodes_are_answered();
        let waiting = self.process.graph.waiting_changes();
        assert_eq!(waiting, 0, "changes that wait for the disk");
    }

    /// Checks what everybody has in the end.
    pub(in super::super) fn judge(&mut self, dice: &mut Dice) {
        self.settle();
        // A failed commit may be on the disk until the next one; one of these has an effect.
        for target in [true, false] {
            self.change_one(0, (NAMES[0], NAMES[1]), target);
            self.settle();
        }
        // What the graph has is what it says, and is on the disk.
        for subscriber in NAMES {
            self.list_of(0, subscriber);
            self.settle();
        }
        self.judge_disk();
        self.run(Duration::from_secs(1));
        self.judge_presence();
        for client in &self.clients {
            let session = &client.session;
            let is_served = session.state == State::Online || !session.is_faithful;
            assert!(is_served, "reader {} waits for an answer", client.reader);
        }
        let (absent, present): (Vec<_>, Vec<_>) =
            (0..self.readers.len()).partition(|&reader| self.may_come_back(reader));
        for &reader in &absent {
            self.collect(reader, dice);
            self.arrive(dice.roll(WORKERS), reader, usize::MAX, usize::MAX);
        }
        self.run(Duration::from_secs(1));
        for subject in NAMES {
            self.publish_about(dice.roll(PUBLISHERS), subject, false);
            self.settle();
        }
        self.run(Duration::from_secs(2));
        self.judge_presence();
        let edges = self.edges.positions();
        for reader in absent.into_iter().chain(present) {
            let at = self.unread(reader).expect("it is connected").at;
            let length = self.process.server.sent_bytes(at);
            self.read(reader, length);
            let published = self.published.iter().map(|it| &it.posted);
            self.readers[reader].judge(format!("reader {reader}"), published, &edges);
        }
    }

    /// Checks that what was acknowledged would survive a loss of power now.
    fn judge_disk(&self) {
        let disk = self.storage.disk.after_power_loss(None);
        let (found, _writer) = open(&disk);
        for edge in all_edges() {
            let keys = found.find(&id(edge.0)).zip(found.find(&id(edge.1)));
            let is_there = keys.is_some_and(|(one, other)| found.is_subscribed(one, other));
            let known = self.edges.known(edge);
            assert!(
                known.is_none_or(|it| it == is_there),
                "{edge:?} is on the disk: {is_there}"
            );
        }
    }

    /// Everybody goes, and nothing is left of anybody.
    pub(in super::super) fn end(&mut self) {
        for name in NAMES {
            self.remove(0, name);
            self.settle();
        }
        self.clients
            .iter_mut()
            .for_each(|it| it.session.is_faithful = false);
        self.count_replayed();
        self.process.server.end_all();
        self.end_nodes();
        self.publishers.iter().for_each(|it| it.end());
        for _ in 0..30 {
            self.process.turn_control();
            self.process.server.rest();
            self.process.node.rest();
            self.process.pass(Duration::from_millis(100));
            self.process.server.tick_presence();
        }
        self.process.server.ring();
        self.process.server.rest();
        self.process.server.assert_nothing_is_left();
        self.process.node.assert_nothing_is_left();
        self.judge_processes();
        let under_way = self.process.control_under_way();
        assert_eq!(
            under_way,
            (0, 0),
            "connections and events of the control API"
        );
        let router = self.process.server.handle().router();
        router.tick(self.seconds + AGE_SECONDS + 1);
        self.process.end_log();
        let graph = &self.process.graph;
        assert_eq!(graph.counts(), graph::Counts::default(), "ids and edges");
        graph.end();
        while self.process.commit() {}
        let disk = self.storage.disk.after_power_loss(None);
        let (found, _writer) = open(&disk);
        assert_eq!(found.counts(), graph::Counts::default(), "on the disk");
    }
}
