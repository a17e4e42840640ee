//! What the measurements share: the setting they run in, and sums of the server's counters.

use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;

use crate::child::Server;
use client::control_client::ControlClient;
use machine::failure::{Failure, Outcome};

/// A subject that no client logs in as.
pub const SUBJECT: u32 = 2_000_000_000;

/// Connections of one descriptor table: below a hard limit of 20,000 with room for the spread that
/// the kernel's hash leaves between listeners.
pub(crate) const PER_TABLE: u32 = 16_000;

/// What all measurements need to know.
#[derive(Debug, Clone)]
pub struct BenchConfig {
    /// The server's program.
    pub server: PathBuf,
    /// Streaming clients.
    pub connections: u32,
    /// Workers of the server and of the bare one.
    pub workers: u32,
    /// Client threads.
    pub threads: u32,
    /// Unanswered clients at once.
    pub window: u32,
    /// Where in the server's statistics system calls are counted: JSON pointers; all numbers
    /// below them are summed.
    pub calls_pointers: Vec<String>,
    /// Whether the server and the bare one have a descriptor table for each worker.
    pub private_fds: bool,
    /// Whether the server's clients are WebSockets.
    pub websocket: bool,
    /// Ids of each of the server's clients, in which `{n}` is its number.
    pub ids: String,
    /// More arguments for the server.
    pub server_arguments: Vec<String>,
}

impl BenchConfig {
    /// Starts the server.
    ///
    /// # Errors
    ///
    /// Those of [`Server::start`].
    pub fn start_server(&self) -> Outcome<Server> {
        let mut arguments = vec!["--workers".to_owned(), self.workers.to_string()];
        arguments.extend(self.private_fds.then(|| "--private-fds".to_owned()));
        arguments.extend_from_slice(&self.server_arguments);
        Server::start(&self.server, &arguments)
    }
}

/// Threads, or workers, with a descriptor table each, that `connections` need.
pub fn tables_for(connections: u32) -> u32 {
    connections.div_ceil(PER_TABLE).clamp(2, 1024)
}

/// The sum of all numbers at or below each of `pointers` in `stats`; nothing when one has none.
pub fn counters(stats: &Value, pointers: &[String]) -> Option<f64> {
    pointers.iter().map(|pointer| counter(stats, pointer)).sum()
}

/// Publishes a batch of `body` and makes sure that each of its lines was taken.
///
/// # Errors
///
/// When the request fails, or the server refuses a line of the batch.
pub fn publish_whole(control: &mut ControlClient, body: &mut dyn Read) -> Outcome<()> {
    let summary = control.publish_batch(body)?;
    if counter(&summary, "/failed").unwrap_or(0.0) > 0.0 {
        return Err(Failure::new(format!(
            "the server refused lines of the batch: {summary}"
        )));
    }
    Ok(())
}

/// The sum of all numbers at or below `pointer` in `stats`; nothing when there are none.
pub fn counter(stats: &Value, pointer: &str) -> Option<f64> {
    fn sum(value: &Value) -> Option<f64> {
        match value {
            Value::Number(number) => number.as_f64(),
            Value::Array(items) => items
                .iter()
                .filter_map(sum)
                .reduce(|left, right| left + right),
            Value::Object(members) => members
                .values()
                .filter_map(sum)
                .reduce(|left, right| left + right),
            _ => None,
        }
    }
    sum(stats.pointer(pointer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_below_a_pointer_are_summed() {
        let stats = serde_json::json!({"calls": {"send": 3, "recv": [1, {"x": 2}], "note": "n"}});
        assert_eq!(counter(&stats, "/calls"), Some(6.0));
        assert_eq!(counter(&stats, "/calls/send"), Some(3.0));
        assert_eq!(counter(&stats, "/calls/note"), None);
        assert_eq!(counter(&stats, "/missing"), None);
        let pointers = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            counters(&stats, &pointers(&["/calls/send", "/calls/recv"])),
            Some(6.0)
        );
        assert_eq!(
            counters(&stats, &pointers(&["/calls/send", "/missing"])),
            None
        );
    }

    #[test]
    fn a_million_connections_are_63_tables() {
        assert_eq!(tables_for(1_000_000), 63);
        assert_eq!(tables_for(1), 2);
    }
}
