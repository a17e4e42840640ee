//! Result of an experiment: measurements, derived values, and failures.

use load::drive;
use load::flood::driven::Answer;
use machine::host::HostInfo;
use machine::humanize::{count, size};
use recorder::measure::CpuTime;
use serde::Serialize;
use serde_json::{Value, json};

use super::history::HISTORY;
use super::options::Options;
use super::outage::ClusterResult;
use super::preparation::PreparedMachine;
use super::restart::RestartResult;

/// Complete result. Parts that were not reached are `None`.
#[derive(Debug, Clone)]
pub struct Proof {
    /// Version of the program.
    pub version: &'static str,
    /// Command that repeats the experiment.
    pub command: String,
    /// Machine of the experiment.
    pub machine: HostInfo,
    /// Users asked for.
    pub connections: u32,
    /// Events a second asked for.
    pub rate: f64,
    /// Workers of the server.
    pub workers: u64,
    /// Whether each worker had its own descriptor table.
    pub private_fds: bool,
    /// Advice of the doctor.
    pub remarks: Vec<String>,
    /// Settings that were changed for the experiment and restored, as commands.
    pub settings: Vec<String>,
    /// Whether the experiment was interrupted.
    pub interrupted: bool,
    /// Graph, if there was one.
    pub graph: Option<Graph>,
    /// Result of connecting the users.
    pub opened: Option<OpeningResult>,
    /// Result of publishing events.
    pub driven: Option<DriveResult>,
    /// Label and recording of each server, in the format of `encke-lab record`.
    pub recordings: Vec<(String, String)>,
}

/// Generated graph.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Graph {
    /// Friends that each new user made.
    pub degree: u32,
    /// Friendships, each of which is two subscriptions.
    pub friendships: u64,
    /// Seconds to generate and load it.
    pub seconds: f64,
}

/// Result of connecting the users, with the memory of idle users in bytes.
#[derive(Debug, Clone)]
pub struct OpeningResult {
    /// Users connected.
    pub connections: u64,
    /// Seconds until the last of them was connected.
    pub seconds: f64,
    /// Resident memory of the server before any user.
    pub server_before: u64,
    /// Resident memory of the server with all users.
    pub server: u64,
    /// Resident memory of the users' process.
    pub users: u64,
    /// Growth of the kernel's objects, for both ends of each connection.
    pub kernel: u64,
    /// Users connected over time: seconds of the recording, and number.
    pub arrivals: Vec<(f64, u64)>,
    /// Failures, as sentences.
    pub failures: Vec<String>,
}

/// Result of publishing and delivering events.
#[derive(Debug, Clone)]
pub struct DriveResult {
    /// Report of the publisher.
    pub published: drive::Report,
    /// Events received by users.
    pub deliveries: u64,
    /// Seconds from the first event to the last delivery.
    pub seconds: f64,
    /// Deliveries that the receipts promise.
    pub awaited: u64,
    /// CPU time of the servers.
    pub processor: CpuTime,
    /// Counters of the users at the end.
    pub seen: Answer,
    /// Result of killing the server, if it was killed.
    pub restart: Option<RestartResult>,
    /// Result of killing parts of a cluster, if there was one.
    pub cluster: Option<ClusterResult>,
    /// Resident memory of the servers afterwards, in bytes.
    pub resident: u64,
    /// Events received over time: seconds of the recording, and number.
    pub arrivals: Vec<(f64, u64)>,
    /// Users with a stream over time: seconds of the recording, and number.
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

    /// Returns the failures, as sentences.
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
            let totals = &driven.seen.totals;
            let missing = totals.counts.numbers.missing();
            for (number, what) in [
                (missing, "events are missing at their users"),
                (totals.out_of_order(), "events came again or out of order"),
                (totals.closed, "streams ended too early"),
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

    /// Returns the result as JSON.
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

/// Returns the command line that repeats the experiment, without paths.
fn command(options: &Options) -> String {
    let mut command = format!(
        "encke-lab prove --connections {} --rate {} --duration {}s --seed {}",
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

    /// Returns the bytes of the server's process for each connection.
    pub fn server_each(&self) -> f64 {
        self.each(self.server.saturating_sub(self.server_before))
    }

    /// Returns the bytes of the users' process for each user.
    pub fn user_each(&self) -> f64 {
        self.each(self.users)
    }

    /// Returns the bytes of the kernel for one end of a connection.
    pub fn kernel_end_each(&self) -> f64 {
        self.each(self.kernel) / 2.0
    }

    /// Returns the connections opened a second.
    pub fn rate(&self) -> f64 {
        self.connections as f64 / self.seconds.max(0.001)
    }

    pub(super) fn sentence(&self) -> String {
        format!(
            "{} users connected in {:.1} s; the server uses {}, {:.0} bytes a connection, and the \
             kernel {} for both ends",
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
    /// Returns the deliveries a second, over the whole time.
    pub fn rate(&self) -> f64 {
        self.deliveries as f64 / self.seconds.max(0.001)
    }

    /// Returns the CPU time of the servers for each delivery in microseconds: total, and in user
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
            self.seen.totals.latency.p99_us / 1000.0
        )
    }

    fn json(&self) -> Value {
        let (processor, user) = self.processor_each();
        let totals = &self.seen.totals;
        json!({
            "published": self.published,
            "deliveries": self.deliveries,
            "deliveries_awaited": self.awaited,
            "deliveries_per_second": self.rate(),
            "seconds": self.seconds,
            "processor_us_each": processor,
            "processor_user_us_each": user,
            "latency": totals.latency,
            "missing": totals.counts.numbers.missing(),
            "out_of_order": totals.out_of_order(),
            "closed": totals.closed,
            "restart": self.restart,
            "cluster": self.cluster,
            "server_resident_bytes": self.resident,
        })
    }
}
