//! Options of the experiment, and what it tells while it runs.

use std::path::PathBuf;
use std::time::Duration;

/// Options of the experiment.
#[derive(Debug, Clone)]
pub struct Options {
    /// Program of server and users: this one.
    pub program: PathBuf,
    /// Users, each with one stream.
    pub connections: u32,
    /// Events a second.
    pub rate: f64,
    /// Time for which events are published.
    pub duration: Duration,
    /// Friends that each new user of a generated graph makes. `None`: no graph, each event is for
    /// one user.
    pub degree: Option<u32>,
    /// Seed of the graph and the subjects.
    pub seed: u64,
    /// Whether the server is killed and restarted while events are published.
    pub restart: bool,
    /// Number of nodes of a cluster, of which one is killed together with a server of the engine.
    /// `None`: one server without a cluster.
    pub nodes: Option<u16>,
    /// Workers of the server. `None`: as many as CPUs, or as the descriptor limit requires.
    pub workers: Option<u64>,
}

/// Progress of the experiment.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A message.
    Said(String),
    /// Users connected, and the number of all users.
    Opening(u64, u64),
    /// Time for which events have been published, and the total time.
    Driving(Duration, Duration),
}
