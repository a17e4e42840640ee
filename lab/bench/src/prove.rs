//! Experiment `encke-lab prove`: a server and its users on one machine, events at a given rate, and
//! a report of the cost.
//!
//! `preparation` sets up the machine, `engine` and `service` run the servers, `clients` runs the
//! users in their own process, `recorder` records the servers, and `restart` and `outage` kill
//! servers during the run. `options` is what is asked for, `proof` is the result, `history` has
//! earlier results, and `page` is the report. This file runs the steps in order.

mod options;
mod preparation;
mod engine;
mod service;
pub mod clients;
mod recorder;
mod restart;
pub mod outage;
pub mod proof;
pub mod history;
pub mod page;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ::recorder::measure::Memory;
use client::tls::Authorities;
use load::drive::{self, Endpoint, Pace, Payload, TargetDistribution};
use load::flood::driven::Answer;
use load::friends;
use machine::failure::{Context, Failure, Outcome};
use machine::interrupt::Interrupt;

pub use options::{Options, Progress};
use outage::Outage;
use preparation::PreparedMachine;
use proof::{DriveResult, Graph, OpeningResult, Proof};
use recorder::Recorder;
use restart::{Directory, RestartResult, add_cpu_times};
use service::{Service, node_name};

use crate::processes::Clients;

/// Pause before memory is read, so that work under way can finish.
const SETTLE: Duration = Duration::from_secs(1);

/// Interval at which progress is checked.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The same while users connect, which may take only a second.
const CHECK_OPENING_EVERY: Duration = Duration::from_millis(50);

/// The same while a server is killed, for finer plots.
const CHECK_OUTAGE_EVERY: Duration = Duration::from_millis(200);

/// Time limit for users to connect. A million took half a minute on two cores.
const OPEN_MAX: Duration = Duration::from_secs(600);

/// Time limit for users to reconnect after a restart.
const RETURN_MAX: Duration = Duration::from_secs(600);

/// Time limit for the last deliveries after all events are published.
const LAST_DELIVERIES_MAX: Duration = Duration::from_secs(60);

/// Runs the experiment with a server of this `program`. After an interrupt, returns the result so
/// far.
///
/// # Errors
///
/// When the machine cannot be prepared, or the server or the clients cannot be started or fail.
pub fn run(
    program: &Path,
    options: &Options,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(Progress),
) -> Outcome<Proof> {
    let ready = PreparedMachine::make(options, tell)?;
    let keeps = options.restart || options.nodes.is_some();
    let directory = keeps.then(Directory::create).transpose()?;
    let mut service = Service::start(program, options, &ready, directory.as_ref())?;
    let mut proof = Proof::begin(options, &ready);
    for node in &service.nodes {
        tell(Progress::Said(format!(
            "a server with {} workers listens on {}",
            ready.wanted.workers, node.public
        )));
    }
    let recorders = service.nodes.iter();
    let recorders = recorders
        .map(|node| Recorder::start(node.pid(), node.public.port()))
        .collect::<Outcome<Vec<Recorder>>>()?;
    let mut experiment = Experiment {
        options,
        interrupt,
        service: &mut service,
        directory: directory.as_ref(),
        watching: &recorders[0],
    };
    let outcome = experiment.run(&mut proof, tell);
    proof.interrupted = interrupt.asked();
    // Stop before the users leave, which is not part of the experiment.
    for (index, recorder) in recorders.into_iter().enumerate() {
        let label = match options.nodes {
            Some(_) => node_name(index),
            None => "server".to_owned(),
        };
        proof.recordings.push((label, recorder.stop()?));
    }
    let outcome = outcome.map(Clients::quit);
    drop(service);
    proof.settings = ready.restore();
    match outcome {
        Ok(()) => Ok(proof),
        // After an interrupt, report the result so far even if a step failed.
        Err(_) if proof.interrupted && proof.opened.is_some() => Ok(proof),
        Err(failure) => Err(failure),
    }
}

/// Context of the steps.
struct Experiment<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
    service: &'a mut Service,
    /// Directory for data that must outlive a killed server.
    directory: Option<&'a Directory>,
    watching: &'a Recorder,
}

impl Experiment<'_> {
    fn run(&mut self, proof: &mut Proof, tell: &mut dyn FnMut(Progress)) -> Outcome<Clients> {
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

    /// Generates a graph and subscribes all users to their friends.
    fn load(&self, degree: u32, tell: &mut dyn FnMut(Progress)) -> Outcome<Graph> {
        let (users, seed) = (self.options.connections, self.options.seed);
        tell(Progress::Said(format!(
            "generating a graph of {users} users, each of whom makes {degree} friends, and \
             subscribing friends to each other"
        )));
        let (reader, mut writer) = std::io::pipe().context("making a pipe for the graph")?;
        let begun = Instant::now();
        let options = friends::Options {
            users,
            degree,
            seed,
        };
        let interrupt = self.interrupt.clone();
        let made = thread::spawn(move || {
            friends::write(options, None, &mut writer, |_| !interrupt.asked())
        });
        let mut edges = preparation::both_ways(reader);
        let loaded = self.service.first().control()?.subscribe_many(&mut edges);
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
        let all = u64::from(self.options.connections);
        self.interrupt.sleep(SETTLE);
        let (server_before, kernel_before) = (self.service.resident()?, self.watching.kernel());
        let mut arrivals = vec![(self.watching.elapsed(), 0)];
        let nodes = self.service.nodes.iter().map(|node| node.public);
        let mut clients = clients::start(self.options, nodes)?;
        let until = Instant::now() + OPEN_MAX;
        let seen = loop {
            let seen = clients.ask("await open 0")?;
            arrivals.push((self.watching.elapsed(), seen.totals.counts.heads));
            tell(Progress::Opening(seen.totals.counts.heads, all));
            if seen.reached || self.interrupt.asked() || Instant::now() > until {
                break seen;
            }
            thread::sleep(CHECK_OPENING_EVERY);
        };
        self.interrupt.sleep(SETTLE);
        let (server, kernel) = (self.service.resident()?, self.watching.kernel());
        let users = Memory::of(clients.pid())?;
        let opened = OpeningResult {
            connections: seen.totals.counts.heads - seen.totals.closed,
            seconds: seen.seconds,
            arrivals,
            server_before,
            server,
            users: users.resident,
            kernel: kernel.saturating_sub(kernel_before),
            failures: seen.totals.failures.clone(),
        };
        tell(Progress::Said(opened.sentence()));
        if opened.connections < all && !self.interrupt.asked() {
            return Err(Failure::new(format!(
                "of {all} users, {} are connected: {}",
                opened.connections,
                seen.totals.failure_text()
            )));
        }
        Ok((clients, opened))
    }

    /// Publishes events and measures their delivery.
    fn drive(
        &mut self,
        mut clients: Clients,
        tell: &mut dyn FnMut(Progress),
    ) -> Outcome<(Clients, DriveResult)> {
        let options = self.drive_options();
        let before = clients.seen()?;
        let spent_before = self.service.spent()?;
        let (begun, first) = (Instant::now(), self.watching.elapsed());
        let interrupt = self.interrupt.clone();
        let acknowledged = Arc::new(Mutex::new(vec![(first, 0)]));
        let told = Arc::clone(&acknowledged);
        let driver = thread::Builder::new()
            .name("drive".to_owned())
            .spawn(move || {
                drive::run(&options, &interrupt, |progress| {
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    told.push((first + progress.seconds, progress.events.accepted));
                })
            })
            .context("starting the thread that publishes")?;
        let mut arrivals = vec![(first, before.totals.counts.events)];
        let mut connected = vec![(first, before.totals.active)];
        let mut killed = None;
        let nodes = self.service.nodes.len();
        let mut outage = (self.options.nodes).map(|_| Outage::planned(self.options, nodes));
        let is_under_way =
            |outage: &Option<Outage>| outage.as_ref().is_some_and(|outage| !outage.is_over());
        while !driver.is_finished() || is_under_way(&outage) && !self.interrupt.asked() {
            thread::sleep(match outage {
                Some(_) => CHECK_OUTAGE_EVERY,
                None => CHECK_EVERY,
            });
            let is_half = begun.elapsed() >= self.options.duration / 2;
            if self.options.restart && killed.is_none() && is_half {
                let spent = &self.service.spent()? - &spent_before;
                let result = self.restart(&mut clients, tell)?;
                killed = Some((spent, result));
            }
            let (seen, elapsed) = (clients.seen()?, self.watching.elapsed());
            arrivals.push((elapsed, seen.totals.counts.events));
            connected.push((elapsed, seen.totals.active));
            if let Some(outage) = &mut outage {
                outage.step(self.service, &seen, (begun.elapsed(), elapsed), tell)?;
            }
            tell(Progress::Driving(begun.elapsed(), self.options.duration));
        }
        let published = driver.join().expect("the driver does not panic")?;
        let awaited =
            before.totals.counts.events + published.receipts.written + published.receipts.queued;
        let after = match self.directory {
            Some(directory) => clients.ask(&format!(
                "owed {} {}",
                directory.log().display(),
                LAST_DELIVERIES_MAX.as_secs()
            ))?,
            None => self.await_deliveries(&mut clients, awaited)?,
        };
        let spent = self.service.spent()?;
        let (spent, restart) = match (killed, &outage) {
            (Some((first, result)), _) => {
                (add_cpu_times(&first, &spent), Some(result.finish(&after)))
            }
            (None, Some(outage)) => (&add_cpu_times(&spent, outage.spent()) - &spent_before, None),
            (None, None) => (&spent - &spent_before, None),
        };
        let seconds = begun.elapsed().as_secs_f64();
        let deliveries = after.totals.counts.events - before.totals.counts.events;
        arrivals.push((self.watching.elapsed(), after.totals.counts.events));
        let mut driven = DriveResult {
            published,
            deliveries,
            seconds,
            awaited: awaited - before.totals.counts.events,
            processor: spent,
            seen: after,
            restart,
            cluster: None,
            resident: self.service.resident()?,
            arrivals,
            connected,
        };
        if let Some(outage) = outage {
            let told = acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
            driven.cluster = Some(outage.finish(&driven, told.clone()));
        }
        tell(Progress::Said(driven.sentence()));
        Ok((clients, driven))
    }

    /// Kills the server, starts it again, and waits until all users have reconnected.
    fn restart(
        &mut self,
        clients: &mut Clients,
        tell: &mut dyn FnMut(Progress),
    ) -> Outcome<RestartResult> {
        let all = u64::from(self.options.connections);
        let mut streams = vec![(self.watching.elapsed(), clients.seen()?.totals.active)];
        let killed = Instant::now();
        tell(Progress::Said("the server is killed".to_owned()));
        self.service.nodes[0].restart()?;
        let server_seconds = killed.elapsed().as_secs_f64();
        let back = loop {
            let active = clients.seen()?.totals.active;
            streams.push((self.watching.elapsed(), active));
            tell(Progress::Opening(active, all));
            // Users still count as connected until they notice that their server is gone.
            let is_over = active == all && clients.seen()?.totals.counts.recovery.returns >= all;
            if is_over || self.interrupt.asked() || killed.elapsed() > RETURN_MAX {
                break active;
            }
            thread::sleep(CHECK_OUTAGE_EVERY);
        };
        let result = RestartResult {
            server_seconds,
            back_seconds: killed.elapsed().as_secs_f64(),
            back,
            streams,
            ..RestartResult::default()
        };
        tell(Progress::Said(result.sentence()));
        Ok(result)
    }

    /// Waits for the last deliveries.
    fn await_deliveries(&self, clients: &mut Clients, awaited: u64) -> Outcome<Answer> {
        let until = Instant::now() + LAST_DELIVERIES_MAX;
        loop {
            let seen = clients.await_events(awaited, 1)?;
            if seen.reached || self.interrupt.asked() || Instant::now() > until {
                return Ok(seen);
            }
        }
    }

    fn drive_options(&self) -> drive::Options {
        let nodes = self.service.nodes.iter();
        let mut urls = nodes.map(|node| node.control_url.clone());
        drive::Options {
            url: urls.next().expect("there is a server"),
            others: urls.collect(),
            authorities: Authorities::System,
            token: None,
            way: Endpoint::Batch,
            connections: self.service.nodes.len() as u32,
            pace: Pace::Rate(self.options.rate),
            duration: Some(self.options.duration),
            count: None,
            draw: TargetDistribution::Uniform {
                max_id: self.options.connections,
            },
            seed: self.options.seed,
            payload: Payload::stamp(),
            reconnects: self.directory.is_some(),
            log: self.directory.map(Directory::log),
        }
    }
}
