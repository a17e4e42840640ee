//! What an experiment found: figures, what is derived from them, and whether it went well.

use serde::Serialize;
use serde_json::{Value, json};

use super::Options;
use super::clients::Latency;
use super::cluster::ClusterResult;
use super::history::HISTORY;
use super::preparation::PreparedMachine;
use super::restart::RestartResult;
use load::drive;
use machine::host::HostInfo;
use machine::humanize::{count, size};
use machine::measure::CpuTime;

/// All that was found. Parts that were not reached are missing.
#[derive(Debug, Clone)]
pub struct Proof {
    /// The program's version.
    pub version: &'static str,
    /// What does it again.
    pub command: String,
    /// Where it was measured.
    pub machine: HostInfo,
    /// Users asked for.
    pub connections: u32,
    /// Events a second asked for.
    pub rate: f64,
    /// Workers of the server.
    pub workers: u64,
    /// Whether each had a descriptor table of its own.
    pub private_fds: bool,
    /// What the doctor would have better.
    pub remarks: Vec<String>,
    /// Settings that were changed for the experiment, and given back, as commands.
    pub settings: Vec<String>,
    /// Whether somebody ended it early.
    pub interrupted: bool,
    /// The graph, where there was one.
    pub graph: Option<Graph>,
    /// Users connected.
    pub opened: Option<OpeningResult>,
    /// Events published.
    pub driven: Option<DriveResult>,
    /// What was recorded meanwhile of each server, as `encke record` writes it.
    pub recordings: Vec<(String, String)>,
}

/// A graph that was generated and loaded.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Graph {
    /// Friends that each new user made.
    pub degree: u32,
    /// Friendships; each is two subscriptions.
    pub friendships: u64,
    /// Time to make and load it.
    pub seconds: f64,
}

/// How users connected, and what they take while idle, in bytes.
#[derive(Debug, Clone)]
pub struct OpeningResult {
    /// Users connected.
    pub connections: u64,
    /// Time until the last of them was.
    pub seconds: f64,
    /// Resident memory of the server before.
    pub server_before: u64,
    /// And with all of them.
    pub server: u64,
    /// Resident memory of the users' process.
    pub users: u64,
    /// What the kernel's objects grew by: both ends of each connection.
    pub kernel: u64,
    /// Users connected by then, over the time of the recording.
    pub arrivals: Vec<(f64, u64)>,
    /// What went wrong, as sentences.
    pub failures: Vec<String>,
}

/// How events were published and delivered.
#[derive(Debug, Clone)]
pub struct DriveResult {
    /// What the publisher says.
    pub published: drive::Report,
    /// Events that users read.
    pub deliveries: u64,
    /// From the first event to the last delivery.
    pub seconds: f64,
    /// Deliveries that the receipts promise.
    pub awaited: u64,
    /// Processor time of the server.
    pub processor: CpuTime,
    /// From when an event was due to its arrival.
    pub latency: Latency,
    /// Events that users missed, by the publisher's numbers.
    pub missing: u64,
    /// Events that came again or after a later one.
    pub out_of_order: u64,
    /// Streams that ended.
    pub closed: u64,
    /// How the server was killed and users came back, if it was.
    pub restart: Option<RestartResult>,
    /// What became of a cluster of which parts were killed, if there was one.
    pub cluster: Option<ClusterResult>,
    /// Resident memory of the server afterwards.
    pub resident: u64,
    /// Events read by then, over the time of the recording.
    pub arrivals: Vec<(f64, u64)>,
    /// Users with a stream then.
    pub connected: Vec<(f64, u64)>,
}

impl Proof {
    pub(super) fn begin(options: &Options, ready: &PreparedMachine) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            command: command(options),
            machine: HostInfo::read(),
            connections: options.connections,
            rate: options.rate,
            workers: ready.wanted.workers,
            private_fds: ready.wanted.private_fds,
            remarks: ready.remarks.clone(),
            settings: Vec::new(),
            interrupted: false,
            graph: None,
            opened: None,
            driven: None,
            recordings: Vec::new(),
        }
    }

    /// What did not go as it should, as sentences; none where all did.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        if let Some(driven) = &self.driven {
            failures.extend(driven.published.failure());
            if let Some(restart) = &driven.restart {
                failures.extend(restart.failures(self.connections.into()));
                return failures;
            }
            if let Some(cluster) = &driven.cluster {
                if !self.interrupted {
                    failures.extend(cluster.failures(self.connections.into()));
                }
                return failures;
            }
            let lost = driven.awaited.saturating_sub(driven.deliveries);
            if lost > 0 && !self.interrupted {
                failures.push(format!("{} deliveries did not arrive", count(lost)));
            }
            for (number, what) in [
                (driven.missing, "events are missing at their users"),
                (driven.out_of_order, "events came again or out of order"),
                (driven.closed, "streams ended before their time"),
            ] {
                if number > 0 {
                    failures.push(format!("{} {what}", count(number)));
                }
            }
        } else if !self.interrupted {
            failures.push("no event was published".to_owned());
        }
        failures
    }

    /// For a program.
    pub fn json(&self) -> Value {
        json!({
            "version": self.version,
            "command": self.command,
            "machine": {
                "processor": self.machine.processor,
                "cores": self.machine.cores,
                "memory_gib": self.machine.memory_gib,
                "kernel": self.machine.kernel,
            },
            "connections": self.connections,
            "rate_asked": self.rate,
            "workers": self.workers,
            "private_fds": self.private_fds,
            "remarks": self.remarks,
            "settings": self.settings,
            "interrupted": self.interrupted,
            "failures": self.failures(),
            "graph": self.graph,
            "opened": self.opened.as_ref().map(OpeningResult::json),
            "driven": self.driven.as_ref().map(DriveResult::json),
            "history": HISTORY,
        })
    }
}

/// The command line that does it again; paths say where somebody built, not what was measured.
fn command(options: &Options) -> String {
    let mut command = format!(
        "encke prove --connections {} --rate {} --duration {}s --seed {}",
        options.connections,
        options.rate,
        options.duration.as_secs_f64(),
        options.seed
    );
    if let Some(degree) = options.degree {
        command.push_str(&format!(" --degree {degree}"));
    }
    if options.restart {
        command.push_str(" --restart");
    }
    if let Some(nodes) = options.nodes {
        command.push_str(&format!(" --nodes {nodes}"));
    }
    if let Some(workers) = options.workers {
        command.push_str(&format!(" --workers {workers}"));
    }
    command
}

impl OpeningResult {
    fn each(&self, bytes: u64) -> f64 {
        bytes as f64 / (self.connections as f64).max(1.0)
    }

    /// Memory of the server's process for a connection.
    pub fn server_each(&self) -> f64 {
        self.each(self.server.saturating_sub(self.server_before))
    }

    /// Memory of the users' process for a user.
    pub fn user_each(&self) -> f64 {
        self.each(self.users)
    }

    /// Memory of the kernel for one end of a connection.
    pub fn kernel_end_each(&self) -> f64 {
        self.each(self.kernel) / 2.0
    }

    /// Connections opened in a second.
    pub fn rate(&self) -> f64 {
        self.connections as f64 / self.seconds.max(0.001)
    }

    pub(super) fn sentence(&self) -> String {
        format!(
            "{} users connected in {:.1} s; the server is resident with {}, {:.0} bytes a \
             connection, and the kernel takes {} for both ends",
            count(self.connections),
            self.seconds,
            size(self.server),
            self.server_each(),
            size(self.kernel),
        )
    }

    fn json(&self) -> Value {
        json!({
            "connections": self.connections,
            "seconds": self.seconds,
            "connections_per_second": self.rate(),
            "server_bytes_each": self.server_each(),
            "client_bytes_each": self.user_each(),
            "kernel_bytes_each_end": self.kernel_end_each(),
            "server_resident_bytes_before": self.server_before,
            "server_resident_bytes": self.server,
            "troubles": self.failures,
        })
    }
}

impl DriveResult {
    /// Deliveries in a second, over the whole time.
    pub fn rate(&self) -> f64 {
        self.deliveries as f64 / self.seconds.max(0.001)
    }

    /// Processor time of the server for a delivery, in microseconds: all of it, and that in user
    /// mode.
    pub fn processor_each(&self) -> (f64, f64) {
        let each = |nanos: u64| nanos as f64 / 1000.0 / (self.deliveries as f64).max(1.0);
        (each(self.processor.total), each(self.processor.user))
    }

    pub(super) fn sentence(&self) -> String {
        format!(
            "{} events published, {} delivered, {:.0} a second; p99 {:.2} ms",
            count(self.published.events.accepted),
            count(self.deliveries),
            self.rate(),
            self.latency.p99_us / 1000.0
        )
    }

    fn json(&self) -> Value {
        let (processor, user) = self.processor_each();
        json!({
            "published": self.published,
            "deliveries": self.deliveries,
            "deliveries_awaited": self.awaited,
            "deliveries_per_second": self.rate(),
            "seconds": self.seconds,
            "processor_us_each": processor,
            "processor_user_us_each": user,
            "latency": self.latency,
            "missing": self.missing,
            "out_of_order": self.out_of_order,
            "closed": self.closed,
            "restart": self.restart,
            "cluster": self.cluster,
            "server_resident_bytes": self.resident,
        })
    }
}
