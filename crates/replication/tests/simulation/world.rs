//! The world: the engine, the network, and faults.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use graph::{Change, Id};
use history::Reach;
use replication::{
    Answer, Answers, Checkpoint, Command, CommandResult, EventCounts, EventRecord, Finished,
    Heartbeat, IN_FLIGHT_MAX, Incarnation, Outcome, Outgoing, Position, Read, ReadError, Reader,
    Receipt, StreamSequence, Table,
};
use simulated::Dice;

use super::ledger::{Answered, Ledger};
use super::node::{NO_PUBLISHER, Node, WAITING_BYTES_MAX, no_shared, share};

const NODES: usize = 3;

/// Time until which there are faults and publishes.
const FAULTS_UNTIL: Duration = Duration::from_secs(15);

/// Time when all nodes must have caught up. Copies may be 20 s late, and elections may last until
/// then.
const END: Duration = Duration::from_secs(60);

/// Mistakes of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Stores the position before the changes up to it.
    StoresPositionFirst,
    /// Stores the changes, and the position later.
    StoresPositionLate,
    /// Treats a silent node as gone without an entry.
    GoneByTheClock,
    /// Lets the engine drop repeated messages.
    EngineDropsRepeats,
    /// Treats an acknowledgement of the engine as proof that the entry counts.
    AcknowledgedIsDone,
    /// Continues after a gap.
    PassesOverGaps,
    /// Reuses an incarnation after its `NodeGone`.
    SameIncarnation,
    /// Expires shared state by the clock of the node.
    ForgetsByItsClock,
    /// Stores the position without the shared state up to it.
    StoresNoSharedState,
}

impl Mistake {
    pub(crate) const ALL: [Self; 9] = [
        Self::StoresPositionFirst,
        Self::StoresPositionLate,
        Self::GoneByTheClock,
        Self::EngineDropsRepeats,
        Self::AcknowledgedIsDone,
        Self::PassesOverGaps,
        Self::SameIncarnation,
        Self::ForgetsByItsClock,
        Self::StoresNoSharedState,
    ];
}

#[derive(Debug, Clone)]
enum Event {
    /// A publisher appends at a node.
    Publish(usize),
    /// An entry reaches the engine.
    Arrive(usize, u32, Outgoing),
    /// The engine has stored an entry of a node.
    Acknowledge(usize, u32, Incarnation, u64, StreamSequence),
    /// The engine refuses an entry of a node.
    Refuse(usize, u32, Incarnation, u64),
    /// A node reads the log.
    Read(usize),
    /// The deadline of a node's writer.
    Wake(usize, u32),
    /// A node checks the others for silence.
    Membership(usize, u32),
    /// A heartbeat reaches a node.
    Heartbeat(usize, Bytes),
    /// An answer reaches a node.
    Answer(usize, u32, Bytes),
    /// A fault occurs.
    Fault,
    /// A node that was down starts.
    Start(usize),
    /// A disconnected node is connected again.
    Connect(usize, u32),
}

#[derive(Debug)]
pub(crate) struct World {
    now: Duration,
    random: Dice,
    events: BTreeMap<(Duration, u64), Event>,
    order: u64,
    nodes: Vec<Node>,
    /// The stream: the entry at sequence 1 is the first.
    log: Vec<Bytes>,
    /// Time when the engine stored each entry, in seconds.
    stamps: Vec<u64>,
    /// Reader that receives every entry, its results, and the table after each entry.
    judge: Reader,
    reads: Vec<Read>,
    tables: Vec<Table>,
    no_leader_until: Duration,
    ledger: Ledger,
    /// Node and run of each incarnation.
    incarnations: BTreeMap<Incarnation, (usize, u32)>,
    /// All checkpoints that were stored.
    checkpoints: Vec<Vec<u8>>,
    receipts: usize,
    mistake: Option<Mistake>,
}

impl World {
    pub(crate) fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut world = Self {
            now: Duration::ZERO,
            random: Dice::new(seed),
            events: BTreeMap::new(),
            order: 0,
            nodes: (0..NODES).map(Node::new).collect(),
            log: Vec::new(),
            stamps: Vec::new(),
            judge: Reader::default(),
            reads: Vec::new(),
            tables: Vec::new(),
            no_leader_until: Duration::ZERO,
            ledger: Ledger::default(),
            incarnations: BTreeMap::new(),
            checkpoints: Vec::new(),
            receipts: 0,
            mistake,
        };
        for node in 0..NODES {
            world.at(Duration::ZERO, Event::Start(node));
            world.at(Duration::from_millis(1), Event::Publish(node));
        }
        world.at(Duration::from_millis(100), Event::Fault);
        world
    }

    pub(crate) fn run(&mut self) {
        while let Some(((at, _), event)) = self.events.pop_first() {
            if at > END {
                return;
            }
            assert!(at >= self.now);
            self.now = at;
            self.handle(event);
        }
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.order += 1;
        self.events.insert((at, self.order), event);
    }

    fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    fn is_faulty(&self) -> bool {
        self.now < FAULTS_UNTIL
    }

    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Returns whether a fault with a probability of `times` in a thousand occurs.
    fn fails(&mut self, times: u64) -> bool {
        self.is_faulty() && self.random.happens(times)
    }

    /// Returns whether a node can act; an event for a stalled one is postponed.
    fn acts(&mut self, node: usize, run: u32, event: &Event) -> bool {
        let it = &self.nodes[node];
        if it.writer.is_none() || it.run != run {
            return false;
        }
        let until = it.stopped_until;
        if self.now < until {
            self.at(until, event.clone());
            return false;
        }
        true
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Publish(node) => self.publish(node),
            Event::Arrive(node, run, entry) => self.arrive(node, run, &entry),
            Event::Start(node) => self.start(node),
            Event::Fault => self.fault(),
            Event::Read(node) => {
                let run = self.nodes[node].run;
                if self.acts(node, run, &event) {
                    self.read_some(node);
                }
            }
            Event::Heartbeat(node, ref bytes) => {
                let run = self.nodes[node].run;
                if self.acts(node, run, &event) {
                    let heartbeat = Heartbeat::decode(bytes).unwrap();
                    self.nodes[node].membership.heartbeat(self.now, heartbeat);
                }
            }
            Event::Acknowledge(node, run, incarnation, number, sequence) => {
                if self.acts(node, run, &event) {
                    let writer = self.nodes[node].writer.as_mut().unwrap();
                    writer.acknowledged(incarnation, number, sequence);
                    self.pump(node);
                }
            }
            Event::Refuse(node, run, incarnation, number) => {
                if self.acts(node, run, &event) {
                    let writer = self.nodes[node].writer.as_mut().unwrap();
                    writer.refused(self.now, incarnation, number);
                    self.pump(node);
                }
            }
            Event::Wake(node, run) => {
                if self.acts(node, run, &event) {
                    self.nodes[node].wakes = None;
                    self.pump(node);
                }
            }
            Event::Membership(node, run) => {
                if self.acts(node, run, &event) {
                    self.look_after(node);
                }
            }
            Event::Answer(node, run, ref bytes) => {
                if self.acts(node, run, &event) {
                    let message = Answers::decode(bytes).unwrap();
                    for answer in message.answers {
                        let receipts = &mut self.nodes[node].receipts;
                        let receipt = receipts.answer(message.node, answer);
                        self.receipts(receipt);
                    }
                }
            }
            Event::Connect(node, run) => {
                if self.acts(node, run, &event) {
                    self.nodes[node].is_cut_off = false;
                    self.nodes[node].membership.reset(self.now);
                    self.nodes[node].writer.as_mut().unwrap().connected();
                    self.pump(node);
                    self.after(Duration::ZERO, Event::Read(node));
                }
            }
        }
    }

    fn start(&mut self, node: usize) {
        let incarnation = self.new_incarnation(node, 1);
        self.nodes[node].start(self.now, incarnation);
        if self.fails(300) {
            self.nodes[node].held_until = self.now + self.random.millis(1000..20_000);
        }
        let run = self.nodes[node].run;
        self.after(Duration::ZERO, Event::Read(node));
        self.after(Duration::from_millis(10), Event::Membership(node, run));
        self.pump(node);
    }

    fn new_incarnation(&mut self, node: usize, next_run: u32) -> Incarnation {
        let incarnation = Incarnation::new(self.random.bits()).unwrap();
        let run = self.nodes[node].run + next_run;
        self.incarnations.insert(incarnation, (node, run));
        incarnation
    }

    fn publish(&mut self, node: usize) {
        if !self.is_faulty() {
            return;
        }
        let delay = match self.random.happens(30) {
            true => self.random.millis(100..3000),
            false => self.random.micros(100..400_000),
        };
        self.after(delay, Event::Publish(node));
        if self.nodes[node].writer.is_none() || self.now < self.nodes[node].stopped_until {
            return;
        }
        let writer = (node, self.nodes[node].run);
        let burst = if self.random.happens(50) { 12 } else { 3 };
        for _ in 0..self.random.within(0..burst) + 1 {
            let count = self.random.within(0..4);
            let (token, numbers) = self.ledger.append(writer, count);
            let commands: Vec<_> = numbers.into_iter().map(command).collect();
            self.append(node, &commands, token);
        }
        self.pump(node);
    }

    fn append(&mut self, node: usize, commands: &[Command], token: usize) {
        let writer = self.nodes[node].writer.as_mut().unwrap();
        if let Err(refused) = writer.append(self.now, commands, token)
            && token != NO_PUBLISHER
        {
            self.ledger.answer(refused.token, refused.error.into());
        }
    }

    /// Sends the due entries of a writer, answers its expired appends, and schedules its deadline.
    fn pump(&mut self, node: usize) {
        let run = self.nodes[node].run;
        let now = self.now;
        let writer = self.nodes[node].writer.as_mut().unwrap();
        let expired = writer.expire(now);
        let mut sent = Vec::new();
        while let Some(entry) = writer.poll_send(now) {
            sent.push(entry);
        }
        assert!(writer.in_flight() <= IN_FLIGHT_MAX);
        assert!(writer.waiting_bytes() <= WAITING_BYTES_MAX);
        let deadline = writer.deadline();
        assert!(
            deadline.is_none_or(|at| at > now),
            "a deadline is over, and nothing is to do"
        );
        for refused in expired {
            if refused.token != NO_PUBLISHER {
                self.ledger.answer(refused.token, refused.error.into());
            }
        }
        for entry in sent {
            self.send(node, run, entry);
        }
        let wakes = self.nodes[node].wakes;
        if let Some(at) = deadline
            && wakes.is_none_or(|wakes| at < wakes)
        {
            self.nodes[node].wakes = Some(at);
            self.at(at, Event::Wake(node, run));
        }
    }

    fn send(&mut self, node: usize, run: u32, entry: Outgoing) {
        if self.nodes[node].is_cut_off || self.fails(30) {
            return;
        }
        // A stalled server delivers all its entries in order when it continues.
        let held_until = self.nodes[node].held_until;
        if self.now < held_until {
            self.at(held_until, Event::Arrive(node, run, entry.clone()));
        }
        let copies = if self.fails(50) { 2 } else { 1 };
        for _ in 0..copies {
            let delay = match self.fails(20) {
                true => self.random.millis(100..20_000),
                false => self.random.micros(200..3000),
            };
            self.after(delay, Event::Arrive(node, run, entry.clone()));
        }
    }

    fn arrive(&mut self, node: usize, run: u32, entry: &Outgoing) {
        let (incarnation, number) = (entry.incarnation, entry.number);
        if self.now < self.no_leader_until {
            if self.random.happens(300) {
                let refuse = Event::Refuse(node, run, incarnation, number);
                self.after(Duration::from_millis(1), refuse);
            }
            return;
        }
        if self.has(Mistake::EngineDropsRepeats) && self.log.contains(&entry.bytes) {
            return;
        }
        self.log.push(entry.bytes.clone());
        // Leaders have different clocks.
        let skew = u64::from(self.no_leader_until.as_millis() % 2 == 1);
        self.stamps.push(100 + self.now.as_secs() + 2 * skew);
        let sequence = self.judge.next();
        let read = self.judge.read(sequence, &entry.bytes).unwrap();
        let is_own_run = self.nodes[node].run == run && number > 1;
        if self.has(Mistake::AcknowledgedIsDone) && is_own_run {
            let counts = matches!(read.outcome, Outcome::Counts(_));
            assert!(counts, "told that {sequence} counts, and it does not");
        }
        self.reads.push(read);
        self.tables.push(self.judge.table().clone());
        if !self.fails(100) {
            let delay = self.random.micros(100..2000);
            let acknowledge = Event::Acknowledge(node, run, incarnation, number, sequence);
            self.after(delay, acknowledge);
        }
        for reader in 0..NODES {
            let delay = match self.fails(20) {
                true => self.random.millis(10..4000),
                false => self.random.micros(100..3000),
            };
            self.after(delay, Event::Read(reader));
        }
    }

    fn read_some(&mut self, node: usize) {
        if self.nodes[node].is_cut_off {
            return;
        }
        let budget = self.random.within(1..9);
        for _ in 0..budget {
            let next = self.nodes[node].reader.next();
            if next.number() > self.log.len() as u64 {
                return;
            }
            self.read_one(node, next);
            if self.nodes[node].writer.is_none() {
                return;
            }
        }
        let delay = self.random.micros(100..1000);
        self.after(delay, Event::Read(node));
    }

    fn read_one(&mut self, node: usize, mut next: StreamSequence) {
        if self.fails(5) && (next.number() as usize) < self.log.len() {
            let bytes = &self.log[next.number() as usize];
            let before = self.nodes[node].reader.checkpoint().clone();
            let gap = self.nodes[node].reader.read(next.next(), bytes);
            assert!(matches!(gap, Err(ReadError::Gap { .. })));
            assert_eq!(*self.nodes[node].reader.checkpoint(), before);
            if self.has(Mistake::PassesOverGaps) {
                let table = before.table;
                let read = next;
                self.nodes[node].reader = Reader::new(Checkpoint { read, table });
                next = next.next();
            }
        }
        let bytes = self.log[next.number() as usize - 1].clone();
        let it = &mut self.nodes[node];
        let read = it.reader.read(next, &bytes).unwrap();
        let incarnation = it.writer.as_ref().unwrap().incarnation();
        self.apply(node, &read, incarnation);
        let writer = self.nodes[node].writer.as_mut().unwrap();
        let finished = writer.read_back(&read).unwrap();
        let (is_gone, has_left) = (writer.needs_incarnation(), writer.has_left());
        if !finished.is_empty() {
            self.finished(node, &read, finished);
        }
        self.nodes[node].receipts.read(next);
        for &ended in &read.ended {
            let receipts = self.nodes[node].receipts.gone(ended);
            self.receipts(receipts);
        }
        if is_gone {
            let fresh = match incarnation {
                Some(same) if self.has(Mistake::SameIncarnation) => same,
                _ => self.new_incarnation(node, 0),
            };
            self.nodes[node].writer.as_mut().unwrap().renew(fresh);
        }
        if self.random.happens(100) {
            self.store(node);
        }
        self.pump(node);
        if has_left {
            self.stop(node, true);
        }
    }

    /// Ends a run of a node, cleanly or not, and starts another one later.
    fn stop(&mut self, node: usize, in_order: bool) {
        let writer = self.nodes[node].writer.take().unwrap();
        if in_order {
            for refused in writer.end() {
                if refused.token != NO_PUBLISHER {
                    self.ledger.answer(refused.token, refused.error.into());
                }
            }
        }
        self.ledger.crashed((node, self.nodes[node].run));
        let delay = self.random.millis(10..8000);
        self.after(delay, Event::Start(node));
    }

    fn store(&mut self, node: usize) {
        let before = self.nodes[node].stored.clone();
        self.nodes[node].store();
        if self.has(Mistake::StoresPositionFirst) {
            self.nodes[node].stored.applied = before.applied;
        }
        if self.has(Mistake::StoresNoSharedState) {
            self.nodes[node].stored.rows = before.rows;
        }
        if self.has(Mistake::StoresPositionLate) {
            self.nodes[node].stored.checkpoint = before.checkpoint;
        }
        let stored = self.nodes[node].stored.checkpoint.clone();
        self.checkpoints.push(stored);
    }

    fn apply(&mut self, node: usize, read: &Read, own: Option<Incarnation>) {
        let seconds = match self.has(Mistake::ForgetsByItsClock) {
            true => 100 + self.now.as_secs(),
            false => self.stamps[read.sequence.number() as usize - 1],
        };
        let it = &mut self.nodes[node];
        it.counted
            .extend(share(&mut it.shared, seconds, &numbers(read)));
        let Outcome::Counts(entry) = &read.outcome else {
            return;
        };
        let it = &mut self.nodes[node];
        if it.ignores.contains(&entry.incarnation) {
            return;
        }
        let mut events = Vec::new();
        for (index, command) in (0..).zip(&entry.commands) {
            let Some(number) = number(command) else {
                continue;
            };
            it.applied
                .push((Position::new(read.sequence, index), number));
            let online = Node::sessions(&it.name, number);
            if matches!(command, Command::Event(_)) && online > 0 {
                events.push(EventCounts {
                    index,
                    online,
                    written: online,
                    ..EventCounts::default()
                });
            }
        }
        if !read.ended.is_empty() || entry.number == 1 {
            it.membership.sync(self.now, it.reader.table());
        }
        let Some(own) = own else {
            return;
        };
        let message = Answers {
            node: own,
            answers: vec![Answer {
                sequence: read.sequence,
                events,
            }],
        };
        let bytes = message.encode().unwrap();
        let (writer, run) = self.incarnations[&entry.incarnation];
        if writer == node {
            self.after(Duration::from_micros(10), Event::Answer(node, run, bytes));
            return;
        }
        let copies = [1, 1, 1, 2][self.random.within(0..4) as usize];
        for _ in 0..copies {
            if !self.fails(50) {
                let delay = self.random.micros(100..20_000);
                self.after(delay, Event::Answer(writer, run, bytes.clone()));
            }
        }
    }

    /// Acknowledges the appends of an entry that counts, and waits for the answers to it.
    fn finished(&mut self, node: usize, read: &Read, finished: Vec<Finished<usize>>) {
        let Outcome::Counts(entry) = &read.outcome else {
            panic!("only what counts is finished");
        };
        let mut tokens = Vec::new();
        for done in finished {
            tokens.push((done.token, done.commands));
            if done.token != NO_PUBLISHER {
                assert_eq!(done.first.sequence(), read.sequence);
                self.ledger.answer(done.token, Answered::At(done.first));
            }
        }
        let results = (0..)
            .zip(&entry.commands)
            .map(|(index, command)| match command {
                Command::Event(_) => CommandResult::Event {
                    position: Position::new(read.sequence, index),
                    subscribers: 0,
                    online: 0,
                    written: 0,
                    queued: 0,
                    shed: 0,
                },
                _ => CommandResult::None,
            });
        let results: Vec<_> = results.collect();
        let it = &mut self.nodes[node];
        let table = it.reader.table();
        let receipts = it
            .receipts
            .expect(self.now, read.sequence, table, results, tokens);
        self.receipts(receipts);
    }

    /// Checks that receipts have the sums over all nodes except the missing ones, which must be
    /// named.
    fn receipts(&mut self, receipts: impl IntoIterator<Item = Receipt<Vec<(usize, usize)>>>) {
        for receipt in receipts {
            self.receipts += 1;
            let at = receipt.sequence.number() as usize - 1;
            let table = &self.tables[at];
            let nodes = receipt.nodes as usize + receipt.missing.len();
            assert_eq!(nodes, table.members().len(), "a receipt leaves out a node");
            let Outcome::Counts(entry) = &self.reads[at].outcome else {
                panic!("a receipt for an entry that does not count");
            };
            for (command, result) in entry.commands.iter().zip(&receipt.results) {
                let &CommandResult::Event { online, .. } = result else {
                    continue;
                };
                let sum = |names: &mut dyn Iterator<Item = &str>| {
                    let number = number(command).unwrap();
                    names
                        .map(|it| u64::from(Node::sessions(it, number)))
                        .sum::<u64>()
                };
                let all = sum(&mut table.members().map(|(_, member)| &*member.name));
                let missing = sum(&mut receipt.missing.iter().map(|name| &**name));
                assert_eq!(online, all - missing, "a receipt does not add up");
            }
        }
    }

    fn look_after(&mut self, node: usize) {
        let run = self.nodes[node].run;
        self.after(Duration::from_millis(250), Event::Membership(node, run));
        let expired = self.nodes[node].receipts.expire(self.now);
        self.receipts(expired);
        let it = &mut self.nodes[node];
        let own = it.writer.as_ref().unwrap().incarnation();
        let gone = it.membership.poll_gone(self.now, own);
        let beats = it.membership.poll_heartbeat(self.now);
        let heartbeat = it.heartbeat().filter(|_| beats && !it.is_cut_off);
        if let Some(heartbeat) = heartbeat {
            let bytes = heartbeat.encode().unwrap();
            for other in (0..NODES).filter(|&other| other != node) {
                if !self.fails(100) {
                    let delay = self.random.micros(100..5000);
                    self.after(delay, Event::Heartbeat(other, bytes.clone()));
                }
            }
        }
        for &incarnation in &gone {
            if self.has(Mistake::GoneByTheClock) {
                self.nodes[node].ignores.push(incarnation);
            }
            let command = Command::NodeGone { incarnation };
            self.append(node, &[command], NO_PUBLISHER);
        }
        // Otherwise the writer is only polled at its deadline, which must not be missing.
        if !gone.is_empty() {
            self.pump(node);
        }
    }

    fn fault(&mut self) {
        if !self.is_faulty() {
            return;
        }
        let delay = self.random.millis(10..4000);
        self.after(delay, Event::Fault);
        let node = self.random.within(0..NODES as u64) as usize;
        if self.nodes[node].writer.is_none() {
            return;
        }
        let run = self.nodes[node].run;
        match self.random.within(0..6) {
            // It is killed or ends cleanly.
            0 => {
                let in_order = self.random.happens(500);
                self.stop(node, in_order);
            }
            // It is stalled.
            1 => self.nodes[node].stopped_until = self.now + self.random.millis(100..9000),
            // It is disconnected.
            2 if !self.nodes[node].is_cut_off => {
                self.nodes[node].is_cut_off = true;
                let writer = self.nodes[node].writer.as_mut().unwrap();
                writer.disconnected(self.now);
                let delay = self.random.millis(50..9000);
                self.after(delay, Event::Connect(node, run));
                self.pump(node);
            }
            // The engine has an election.
            3 => self.no_leader_until = self.now + self.random.millis(100..9000),
            // A node declares another one gone, rightly or not, or leaves.
            4 => {
                let table = self.nodes[node].reader.table();
                let members: Vec<_> = table.members().map(|(it, _)| it).collect();
                if !members.is_empty() && self.now >= self.nodes[node].stopped_until {
                    let at = self.random.within(0..members.len() as u64) as usize;
                    let incarnation = members[at];
                    let command = Command::NodeGone { incarnation };
                    self.append(node, &[command], NO_PUBLISHER);
                    self.pump(node);
                }
            }
            _ => self.store(node),
        }
    }

    /// Checks the requirements at the end. Returns the number of appends that are known to count.
    pub(crate) fn check(&self) -> usize {
        let reader = &self.judge;
        let (mut applied, mut shared, mut counted) = (Vec::new(), no_shared(), Vec::new());
        for (read, &seconds) in self.reads.iter().zip(&self.stamps) {
            counted.extend(share(&mut shared, seconds, &numbers(read)));
            applied.extend(numbers(read));
        }
        for node in &self.nodes {
            let writer = node.writer.as_ref().expect("all nodes are up at the end");
            assert_eq!(writer.waiting_bytes(), 0, "a writer does not drain");
            assert_eq!(node.receipts.awaited(), 0, "a receipt does not come");
            assert_eq!(
                node.reader.next(),
                reader.next(),
                "a reader does not catch up"
            );
            assert_eq!(node.reader.table(), reader.table());
            assert_eq!(node.applied, applied, "a node has applied something else");
            assert!(node.shared.is_same(&shared), "a node shares something else");
            assert_eq!(node.counted, counted, "a name counts elsewhere");
        }
        for checkpoint in &self.checkpoints {
            let checkpoint = Checkpoint::decode(&checkpoint.clone().into()).unwrap();
            let from = checkpoint.read.number() as usize;
            let mut again = Reader::new(checkpoint);
            for (bytes, read) in self.log.iter().zip(&self.reads).skip(from) {
                let found = again.read(again.next(), bytes).unwrap();
                assert_eq!(found, *read, "from a checkpoint another entry counts");
            }
        }
        assert!(reader.table().members().len() >= NODES);
        assert!(self.receipts > 0);
        self.ledger.check(&applied)
    }
}

/// Returns the command with this number: events and changes alternate.
fn command(number: u64) -> Command {
    let id = Id::Integer(number);
    if number.is_multiple_of(3) {
        return Command::Change(Change::Remove { id });
    }
    Command::Event(EventRecord {
        subject: id,
        reach: Reach::Subscribers,
        is_stored: true,
        tag: 0,
        event_type: "".into(),
        payload: Bytes::new(),
    })
}

/// Returns positions and numbers of the commands in an entry.
fn numbers(read: &Read) -> Vec<(Position, u64)> {
    let Outcome::Counts(entry) = &read.outcome else {
        return Vec::new();
    };
    let commands = (0..).zip(&entry.commands);
    let numbers = commands.filter_map(|(index, command)| {
        Some((Position::new(read.sequence, index), number(command)?))
    });
    numbers.collect()
}

fn number(command: &Command) -> Option<u64> {
    match command {
        Command::Event(EventRecord {
            subject: Id::Integer(number),
            ..
        })
        | Command::Change(Change::Remove {
            id: Id::Integer(number),
        }) => Some(*number),
        _ => None,
    }
}
