//! The steps of a life, and what the model knows after each of them.

/// Requests of publishers, and their answers.
mod requests;
/// Clients that follow, and come back.
mod clients;
/// Erlang nodes, and their processes.
mod nodes;
/// What the model knows of sessions.
mod session;
/// Who is online, and what clients are told of it.
mod presence;
/// What goes wrong with the disk and the process.
mod crashes;
/// What must be so in the end.
mod judgement;

use std::time::Duration;

use eventlog::SyncPolicy;
use graph::Id;
use server::Metric;
use server::sim::{Posted, Reader, SimClient};
use simulated::{Dice, Trace};

use self::nodes::Node;
use self::presence::{Attendance, Told};
use self::session::Session;
use super::edges::Edges;
use super::process::{Process, Storage, WORKERS, new_disk};
use super::publisher::Publisher;

const NAMES: [&str; 5] = ["1", "2", "rj", "bob", "2147483648"];

const PUBLISHERS: usize = 4;

/// What lives must bring about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happened {
    PowerLost,
    Killed,
    KilledInWrite,
    /// A change was answered with an error of the disk, and one with a full disk.
    ChangeFailed,
    DiskFull,
    /// An event was answered as not stored; a process whose history's disk had failed has ended.
    Unstored,
    EndedWithAGap,
    /// Of a change without an answer, the next process found it, or did not.
    UnansweredKept,
    UnansweredLost,
    /// Somebody was fed from the history; an event was in a full socket's queue.
    Replayed,
    Queued,
    /// Somebody came back with the id of a process before.
    CameBackToAnother,
    /// A process of a node was sent an event, and has published one; a node has vanished with its
    /// processes.
    ProcessReached,
    ProcessPublished,
    NodeVanished,
}

const HAPPENED: [Happened; 15] = [
    Happened::PowerLost,
    Happened::Killed,
    Happened::KilledInWrite,
    Happened::ChangeFailed,
    Happened::DiskFull,
    Happened::Unstored,
    Happened::EndedWithAGap,
    Happened::UnansweredKept,
    Happened::UnansweredLost,
    Happened::Replayed,
    Happened::Queued,
    Happened::CameBackToAnother,
    Happened::ProcessReached,
    Happened::ProcessPublished,
    Happened::NodeVanished,
];

/// A connection of a reader.
struct Client {
    at: SimClient,
    reader: usize,
    session: Session,
    /// Its reader has read what it will.
    is_read: bool,
    /// What it was told of who is online.
    told: Told,
}

struct Published {
    text: String,
    posted: Posted,
    /// When its request began.
    begun: u64,
    /// Second of the history at that time; `None` if there is a gap behind it.
    second: Option<u32>,
    /// It has a receipt, or will have none: whom it was for is no more looked at.
    is_settled: bool,
    /// Its receipt says that the history has it on disk.
    is_on_disk: bool,
    /// Number of the process that was asked.
    run: usize,
}

pub(super) struct Life {
    storage: Storage,
    process: Process,
    /// Processes so far.
    runs: usize,
    /// The model's time: what happens one after the other.
    clock: u64,
    edges: Edges,
    publishers: Vec<Publisher>,
    published: Vec<Published>,
    readers: Vec<Reader>,
    clients: Vec<Client>,
    /// Nodes that have connected to this process.
    nodes: Vec<Node>,
    attendance: Attendance,
    /// Time of the history, in seconds.
    seconds: u32,
    /// The disk of the history has failed this process, or may have.
    has_log_failed: bool,
    happened: [u64; HAPPENED.len()],
    /// A number for all answers so far.
    answers: u64,
    trace: Trace,
}

/// Name of the process of this number in ids of events.
fn epoch(run: usize) -> String {
    format!("run{run}")
}

impl Life {
    pub(super) fn new(seed: u64, trace: Trace) -> Self {
        let sync = [
            None,
            Some(SyncPolicy::Receipt),
            Some(SyncPolicy::Interval(Duration::from_millis(100))),
        ][seed as usize % 3];
        let storage = Storage {
            disk: new_disk(),
            log: sync.map(|sync| (simulated::disk::Disk::default(), sync)),
            boots: 0,
        };
        let process = Process::start(&storage, &epoch(0));
        let mut life = Self {
            storage,
            process,
            runs: 1,
            clock: 1,
            edges: Edges::default(),
            publishers: Vec::new(),
            published: Vec::new(),
            readers: Vec::new(),
            clients: Vec::new(),
            nodes: Vec::new(),
            attendance: Attendance::default(),
            seconds: 0,
            has_log_failed: false,
            happened: [0; HAPPENED.len()],
            answers: 0,
            trace,
        };
        life.connect_publishers();
        life
    }

    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        self.trace.borrow_mut().push(what());
    }

    fn happens(&mut self, what: Happened) {
        let at = HAPPENED.iter().position(|it| *it == what);
        self.happened[at.expect("it is listed")] += 1;
    }

    pub(super) fn happened(&self) -> Vec<(String, u64)> {
        let names = HAPPENED.map(|it| format!("{it:?}"));
        names.into_iter().zip(self.happened).collect()
    }

    /// Notes whether the server has fed somebody from its history.
    fn count_replayed(&mut self) {
        let stats = self.process.server.handle().stats();
        if stats.total(Metric::EventsReplayed) > 0 {
            self.happens(Happened::Replayed);
        }
    }

    /// Returns the next moment of the model's time.
    const fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Returns a number for all that the server has done so far.
    pub(super) fn digest(&self) -> u64 {
        let server = self.process.server.digest();
        let node = self.process.node.digest();
        let disk = self.storage.disk.digest();
        server ^ node.rotate_left(11) ^ disk.rotate_left(21) ^ self.answers.rotate_left(42)
    }

    pub(super) fn step(&mut self, dice: &mut Dice) {
        let nth = dice.roll(WORKERS);
        match dice.roll(44) {
            0..=2 => self.connect(nth, dice),
            3..=6 => self.publish(dice),
            7..=10 => self.change(dice),
            11 => self.list(dice),
            12..=14 => self.say(dice),
            15..=17 => self.turn_control(),
            18..=20 => {
                self.commit();
            }
            21 => self.write_log(),
            22 => self.turn(nth),
            23 => self.leave(dice),
            24 => self.make_room(dice),
            25 => self.pass(dice),
            26 => self.fail_disk(dice),
            27 => self.crash_now(dice),
            28 => self.forget(dice),
            29 => self.turn(nth),
            30 => self.break_off(dice),
            31 => self.connect_node(dice),
            32..=36 => self.ask_of_node(dice),
            37 => self.say_to_node(dice),
            38..=40 => self.turn_node(),
            41 => self.disturb_node(dice),
            _ => self.rest(),
        }
    }

    /// Lets a worker take a turn.
    fn turn(&mut self, nth: usize) {
        self.process.server.turn(nth);
        self.look_at_clients();
    }

    /// Lets the control API do what it can, and the publishers read.
    fn turn_control(&mut self) {
        self.process.turn_control();
        self.read_answers();
    }

    /// Lets the writer make a commit; false if there was nothing to write, or the process has
    /// crashed.
    fn commit(&mut self) -> bool {
        let is_busy = self.process.commit();
        is_busy && !self.crash_if_due()
    }

    /// Lets the log of the history write.
    fn write_log(&mut self) {
        self.process.write_log();
        self.crash_if_due();
    }

    /// Time passes.
    fn pass(&mut self, dice: &mut Dice) {
        let tenths = 1 + dice.roll(20);
        self.note(|| format!("{tenths} tenths of a second pass"));
        // Whoever says nothing for too long is told so.
        self.publishers.iter_mut().for_each(|it| it.say(1));
        for _ in 0..tenths {
            self.pass_a_tenth();
            let nth = dice.roll(WORKERS);
            self.turn(nth);
        }
    }

    fn pass_a_tenth(&mut self) {
        self.process.pass(Duration::from_millis(100));
        self.tick_nodes();
        self.tick_presence();
    }

    /// Time passes for the history, and what is too old leaves it.
    fn forget(&mut self, dice: &mut Dice) {
        self.seconds += dice.roll(5) as u32;
        let router = self.process.server.handle().router();
        router.tick(self.seconds);
        self.note(|| format!("it is second {} for the history", self.seconds));
    }

    /// Lets all come to rest who have something to do. No time passes.
    fn rest(&mut self) {
        self.note(|| "all come to rest".to_owned());
        for _ in 0..3 {
            self.turn_control();
            while self.commit() {}
            self.write_log();
            self.process.server.rest();
            self.look_at_clients();
            self.process.node.rest();
            self.look_at_nodes();
        }
        self.turn_control();
        self.judge_owed();
    }

    /// Lets time pass for all alike.
    pub(super) fn run(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            self.rest();
            self.pass_a_tenth();
        }
        self.rest();
    }
}

fn name(dice: &mut Dice) -> &'static str {
    NAMES[dice.roll(NAMES.len())]
}

fn id(name: &str) -> Id {
    Id::parse(name).expect("a valid id")
}

/// All subscriptions that there can be.
fn all_edges() -> impl Iterator<Item = (&'static str, &'static str)> {
    let edges = NAMES
        .into_iter()
        .flat_map(|one| NAMES.map(|other| (one, other)));
    edges.filter(|(one, other)| one != other)
}
