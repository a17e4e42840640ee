//! The whole experiment: a server and its users on one machine, events at a rate, and what it all
//! cost.
//!
//! `preparation` sees to the machine, `clients` are the users in a process of their own, `recorder`
//! records while it goes on, `proof` is what was found, `history` what was found before, `page` the
//! report. This file is the order of events; each is a function.

mod preparation;
pub mod clients;
mod recorder;
pub mod proof;
pub mod history;
pub mod page;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::child::Server;
use clients::{ClientStats, Clients};
use load::drive::{self, Endpoint, Pace, Payload, TargetDistribution};
use load::friends;
use machine::failure::{Context, Failure, Outcome};
use machine::interrupt::Interrupt;
use machine::measure::{CpuTime, Memory};
use preparation::PreparedMachine;
use proof::{DriveResult, Graph, OpeningResult, Proof};
use recorder::Recorder;

/// Before memory is read, so that what was under way is over.
const SETTLE: Duration = Duration::from_secs(1);

/// Between two looks at how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What users may take to connect. A million took half a minute on two cores.
const OPEN_MOST: Duration = Duration::from_secs(600);

/// What the last deliveries may take once all events are published.
const REST_MOST: Duration = Duration::from_secs(60);

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program that is server and users: this one.
    pub program: PathBuf,
    /// Users, each with one stream.
    pub connections: u32,
    /// Events a second.
    pub rate: f64,
    /// How long events are published.
    pub duration: Duration,
    /// Friends that each new user of a generated graph makes; without it an event is for one user.
    pub degree: Option<u32>,
    /// Draws the graph and the targets.
    pub seed: u64,
    /// Workers of the server; without it, as many as the descriptor limit asks for.
    pub workers: Option<u64>,
}

/// A part of the experiment, for whoever watches.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A sentence about what begins or was found.
    Said(String),
    /// So many of so many users are connected.
    Opening(u64, u64),
    /// Events have been published for so long, of so long.
    Driving(Duration, Duration),
}

/// Runs the experiment. When `interrupt` asks for the end, what was found so far is the result.
///
/// # Errors
///
/// When the machine cannot be prepared, or the server or the clients cannot be started or fail.
pub fn run(
    options: &Options,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(Progress),
) -> Outcome<Proof> {
    let ready = PreparedMachine::make(options, tell)?;
    let server = Server::start(&options.program, &ready.serve_arguments())?;
    let mut proof = Proof::begin(options, &ready);
    tell(Progress::Said(format!(
        "a server with {} workers listens on {}",
        ready.wanted.workers, server.public
    )));
    let watching = Recorder::start(server.pid(), server.public.port())?;
    let experiment = Experiment {
        options,
        interrupt,
        server: &server,
        watching: &watching,
    };
    let went = experiment.go(&mut proof, tell);
    proof.interrupted = interrupt.asked();
    // Before the users leave: the end is no part of the experiment.
    proof.recording = watching.stop()?;
    let went = went.map(Clients::quit);
    drop(server);
    proof.settings = ready.give_back();
    match went {
        Ok(()) => Ok(proof),
        // What was found until it was stopped is worth a report, whatever was cut off.
        Err(_) if proof.interrupted && proof.opened.is_some() => Ok(proof),
        Err(failure) => Err(failure),
    }
}

/// A server, and what is done to it.
struct Experiment<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
    server: &'a Server,
    watching: &'a Recorder,
}

impl Experiment<'_> {
    fn go(&self, proof: &mut Proof, tell: &mut dyn FnMut(Progress)) -> Outcome<Clients> {
        if let Some(degree) = self.options.degree {
            proof.graph = Some(self.load(degree, tell)?);
        }
        let (clients, opened) = self.open(tell)?;
        proof.opened = Some(opened);
        if self.interrupt.asked() {
            return Ok(clients);
        }
        let (clients, driven) = self.drive(clients, tell)?;
        proof.driven = Some(driven);
        Ok(clients)
    }

    /// Generates a graph and subscribes everyone to his friends.
    fn load(&self, degree: u32, tell: &mut dyn FnMut(Progress)) -> Outcome<Graph> {
        let (users, seed) = (self.options.connections, self.options.seed);
        tell(Progress::Said(format!(
            "{users} users make {degree} friends each, and subscribe to one another"
        )));
        let (reader, mut writer) = std::io::pipe().context("making a pipe for the graph")?;
        let begun = Instant::now();
        let options = friends::Options {
            users,
            degree,
            seed,
        };
        let interrupt = self.interrupt.clone();
        let made =
            thread::spawn(move || friends::write(options, &mut writer, |_| !interrupt.asked()));
        let mut edges = preparation::both_ways(reader);
        let loaded = self.server.control()?.subscribe_many(&mut edges);
        let made = made.join().expect("the generator does not panic")?;
        loaded?;
        let friends::End::Written(report) = made else {
            return Err(Failure::new("the server did not read the graph to its end"));
        };
        Ok(Graph {
            degree,
            friendships: report.edges,
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    /// Connects all users.
    fn open(&self, tell: &mut dyn FnMut(Progress)) -> Outcome<(Clients, OpeningResult)> {
        let (pid, all) = (self.server.pid(), u64::from(self.options.connections));
        self.interrupt.sleep(SETTLE);
        let (server_before, kernel_before) = (Memory::of(pid)?, self.watching.kernel());
        let mut arrivals = vec![(self.watching.elapsed(), 0)];
        let mut clients = Clients::start(self.options, self.server.public)?;
        let until = Instant::now() + OPEN_MOST;
        let seen = loop {
            let seen = clients.opening(LOOK_EVERY)?;
            arrivals.push((self.watching.elapsed(), seen.heads));
            tell(Progress::Opening(seen.heads, all));
            if seen.reached || self.interrupt.asked() || Instant::now() > until {
                break seen;
            }
        };
        self.interrupt.sleep(SETTLE);
        let (server, kernel) = (Memory::of(pid)?, self.watching.kernel());
        let users = Memory::of(clients.pid())?;
        let opened = OpeningResult {
            connections: seen.heads - seen.closed,
            seconds: seen.seconds,
            arrivals,
            server_before: server_before.resident,
            server: server.resident,
            users: users.resident,
            kernel: kernel.saturating_sub(kernel_before),
            failures: seen.failures.clone(),
        };
        tell(Progress::Said(opened.sentence()));
        if opened.connections < all && !self.interrupt.asked() {
            return Err(Failure::new(format!(
                "of {all} users {} are connected: {}",
                opened.connections,
                seen.complaint()
            )));
        }
        Ok((clients, opened))
    }

    /// Publishes events and watches them arrive.
    fn drive(
        &self,
        mut clients: Clients,
        tell: &mut dyn FnMut(Progress),
    ) -> Outcome<(Clients, DriveResult)> {
        let options = self.drive_options();
        let before = clients.seen()?;
        let spent_before = CpuTime::of(self.server.pid())?;
        let begun = Instant::now();
        let interrupt = self.interrupt.clone();
        let driver = thread::Builder::new()
            .name("drive".to_owned())
            .spawn(move || drive::run(&options, &interrupt, |_| {}))
            .context("starting the thread that publishes")?;
        let mut arrivals = vec![(self.watching.elapsed(), before.events)];
        while !driver.is_finished() {
            thread::sleep(LOOK_EVERY);
            arrivals.push((self.watching.elapsed(), clients.seen()?.events));
            tell(Progress::Driving(begun.elapsed(), self.options.duration));
        }
        let published = driver.join().expect("the driver does not panic")?;
        let awaited = before.events + published.receipts.written + published.receipts.queued;
        let after = self.rest(&mut clients, awaited)?;
        let spent = &CpuTime::of(self.server.pid())? - &spent_before;
        let seconds = begun.elapsed().as_secs_f64();
        let deliveries = after.events - before.events;
        arrivals.push((self.watching.elapsed(), after.events));
        let driven = DriveResult {
            published,
            deliveries,
            seconds,
            awaited: awaited - before.events,
            processor: spent,
            latency: after.latency,
            missing: after.numbers.missing(),
            out_of_order: after.numbers.reordered + after.numbers.duplicates,
            closed: after.closed,
            resident: Memory::of(self.server.pid())?.resident,
            arrivals,
        };
        tell(Progress::Said(driven.sentence()));
        Ok((clients, driven))
    }

    /// Waits for the last deliveries.
    fn rest(&self, clients: &mut Clients, awaited: u64) -> Outcome<ClientStats> {
        let until = Instant::now() + REST_MOST;
        loop {
            let seen = clients.arrived(awaited, LOOK_EVERY)?;
            if seen.reached || self.interrupt.asked() || Instant::now() > until {
                return Ok(seen);
            }
        }
    }

    fn drive_options(&self) -> drive::Options {
        drive::Options {
            url: self.server.control_url.clone(),
            token: None,
            way: Endpoint::Batch,
            connections: 1,
            pace: Pace::Rate(self.options.rate),
            duration: Some(self.options.duration),
            count: None,
            draw: TargetDistribution::Uniform {
                max_id: self.options.connections,
            },
            seed: self.options.seed,
            payload: Payload::stamp(),
        }
    }
}
