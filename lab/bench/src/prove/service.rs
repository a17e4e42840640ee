//! Servers of the users: one server, or the nodes of a cluster and its engine.

use std::path::Path;

use machine::failure::Outcome;
use machine::host;
use recorder::measure::{CpuTime, Memory};

use super::engine::Engine;
use super::options::Options;
use super::preparation::PreparedMachine;
use super::restart::{Directory, add_cpu_times};
use crate::child::Server;

/// Name of the cluster.
const CLUSTER: &str = "prove";

/// Stream that holds the cluster's log.
pub(super) const STREAM: &str = "encke-prove";

/// Size of the log: enough for the events of some minutes.
const LOG_BYTES: &str = "2GiB";

/// Size of the history: no event is evicted before all users have reconnected.
const HISTORY_BYTES: &str = "256MiB";

/// Running servers. Dropping it kills them, the nodes before their engine.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) nodes: Vec<Server>,
    pub(super) engine: Option<Engine>,
}

impl Service {
    /// Starts the servers that `options` ask for, and waits until they are ready.
    ///
    /// # Errors
    ///
    /// When a process cannot be started, or is not ready in time.
    pub(super) fn start(
        program: &Path,
        options: &Options,
        ready: &PreparedMachine,
        directory: Option<&Directory>,
    ) -> Outcome<Self> {
        let mut arguments = ready.serve_arguments();
        let (Some(count), Some(directory)) = (options.nodes, directory) else {
            arguments.extend(directory.map_or_else(Vec::new, Directory::serve_arguments));
            return Ok(Self {
                nodes: vec![Server::start(program, &arguments)?],
                engine: None,
            });
        };
        let engine = Engine::start(directory.path())?;
        let addresses = host::free_loopback_addresses(2 * usize::from(count))?;
        let mut nodes = Vec::new();
        for (index, pair) in addresses.chunks(2).enumerate() {
            let mut arguments = arguments.clone();
            let name = node_name(index);
            arguments.extend(node_arguments(&engine.urls(), &name, directory.path()));
            nodes.push(Server::launch(program, pair[0], pair[1], &arguments)?);
        }
        for node in &mut nodes {
            node.wait_until_ready()?;
        }
        Ok(Self {
            nodes,
            engine: Some(engine),
        })
    }

    /// Returns the first server, for requests that any server can answer.
    pub(super) fn first(&self) -> &Server {
        &self.nodes[0]
    }

    /// Returns the resident memory of all servers, without the engine, in bytes.
    pub(super) fn resident(&self) -> Outcome<u64> {
        let each = self.nodes.iter().map(|node| Memory::of(node.pid()));
        each.map(|memory| memory.map(|memory| memory.resident))
            .sum()
    }

    /// Returns the CPU time of all servers, without the engine.
    pub(super) fn spent(&self) -> Outcome<CpuTime> {
        let mut sum = CpuTime::default();
        for node in &self.nodes {
            sum = add_cpu_times(&sum, &CpuTime::of(node.pid())?);
        }
        Ok(sum)
    }
}

/// Returns the name of node `index`.
pub(super) fn node_name(index: usize) -> String {
    format!("n{}", index + 1)
}

fn node_arguments(engine: &str, name: &str, directory: &Path) -> Vec<String> {
    let data = directory.join(name).display().to_string();
    let pairs = [
        ["--cluster", engine],
        ["--cluster-name", CLUSTER],
        ["--node", name],
        ["--data", &data],
        ["--log-bytes", LOG_BYTES],
        ["--history-bytes", HISTORY_BYTES],
    ];
    pairs.concat().into_iter().map(str::to_owned).collect()
}
