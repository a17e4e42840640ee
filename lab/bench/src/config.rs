//! Configuration that all benchmarks share, and sums of the server's counters.

use std::io::Read;
use std::num::ParseIntError;
use std::ops::Add;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::child::Server;
use client::control_client::ControlClient;
use machine::failure::{Failure, Outcome};

/// Subject that no client logs in as.
pub const SUBJECT: u32 = 2_000_000_000;

/// Connections planned for one descriptor table: below a hard limit of 20,000, with a margin as the
/// kernel's hash distributes connections unevenly over listeners.
pub(crate) const PER_TABLE: u32 = 16_000;

/// Configuration of a benchmark.
#[derive(Debug, Clone)]
pub struct BenchConfig {
    /// Program of the server.
    pub server: PathBuf,
    /// Streaming clients.
    pub connections: u32,
    /// Workers of the server and of the bare server.
    pub workers: u32,
    /// Client threads.
    pub threads: u32,
    /// Most clients that may await their head at a time.
    pub window: u32,
    /// JSON pointers into the server's statistics to counters of system calls. All numbers below
    /// them are summed.
    pub calls_pointers: Vec<String>,
    /// Whether the server and the bare server have a descriptor table for each worker.
    pub private_fds: bool,
    /// Whether the server's clients use WebSocket.
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

/// Parses a number of an option, of which 0 means 1.
pub(crate) fn at_least_one(text: &str) -> Result<u32, ParseIntError> {
    text.parse().map(|number: u32| number.max(1))
}

/// Parses the length of a phase, a second or longer.
pub(crate) fn length(text: &str) -> Result<Duration, String> {
    Ok(cli::units::duration(text)?.max(Duration::from_secs(1)))
}

/// Returns how many threads or workers with their own descriptor tables `connections` need.
pub fn tables_for(connections: u32) -> u32 {
    connections.div_ceil(PER_TABLE).clamp(2, 1024)
}

/// Sums all numbers at or below each of `pointers` in `stats`; `None` if one of them has none.
pub fn counters(stats: &Value, pointers: &[String]) -> Option<f64> {
    pointers.iter().map(|pointer| counter(stats, pointer)).sum()
}

/// Publishes `body` as a batch and checks that every line was accepted.
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

/// Sums all numbers at or below `pointer` in `stats`; `None` if there are none.
pub fn counter(stats: &Value, pointer: &str) -> Option<f64> {
    fn sum(value: &Value) -> Option<f64> {
        match value {
            Value::Number(number) => number.as_f64(),
            Value::Array(items) => items.iter().filter_map(sum).reduce(f64::add),
            Value::Object(members) => members.values().filter_map(sum).reduce(f64::add),
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
