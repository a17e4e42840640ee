//! Engine of a cluster: three NATS servers, each a process with its own directory.

use std::env;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::child::OwnedChild;
use client::control_client::ControlClient;
use machine::failure::{Context, Failure, Outcome};
use machine::host;

/// Number of servers: enough for a majority when one is killed.
const SERVERS: usize = 3;

/// Time limit for all servers to be healthy, as they elect a leader first.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Running NATS servers. Dropping it kills them.
#[derive(Debug)]
pub(super) struct Engine {
    program: PathBuf,
    servers: Vec<NatsServer>,
}

/// One NATS server.
#[derive(Debug)]
struct NatsServer {
    name: String,
    configuration: PathBuf,
    client: SocketAddr,
    monitor: SocketAddr,
    /// `None` while it is killed.
    child: Option<OwnedChild>,
}

impl Engine {
    /// Starts the servers, which store their data below `directory`, and waits until they are
    /// healthy.
    ///
    /// # Errors
    ///
    /// When the program is missing, or a server does not start.
    pub(super) fn start(directory: &Path) -> Outcome<Self> {
        let program = program()?;
        let addresses = host::free_loopback_addresses(3 * SERVERS)?;
        let routes: Vec<String> = (0..SERVERS)
            .map(|index| format!("nats://{}", addresses[3 * index + 2]))
            .collect();
        let mut servers = Vec::new();
        for (index, ports) in addresses.chunks(3).enumerate() {
            let name = format!("s{}", index + 1);
            let store = directory.join(&name);
            let configuration = directory.join(format!("{name}.conf"));
            let text = format!(
                "server_name: {name}\nlisten: \"{}\"\nhttp: \"{}\"\n\
                 jetstream {{ store_dir: {store:?}, sync_interval: always, \
                 max_file_store: 8GiB }}\n\
                 cluster {{ name: prove, listen: \"{}\", routes: [{}] }}\n",
                ports[0],
                ports[1],
                ports[2],
                routes.join(", ")
            );
            let written = fs::write(&configuration, text);
            written.context(format_args!("writing {}", configuration.display()))?;
            servers.push(NatsServer {
                name,
                configuration,
                client: ports[0],
                monitor: ports[1],
                child: None,
            });
        }
        let mut engine = Self { program, servers };
        for index in 0..SERVERS {
            engine.revive(index)?;
        }
        engine.wait_until_healthy()?;
        Ok(engine)
    }

    /// Returns the URLs of the servers, for `--cluster`.
    pub(super) fn urls(&self) -> String {
        let urls = self.servers.iter();
        let urls = urls.map(|server| format!("nats://{}", server.client));
        urls.collect::<Vec<String>>().join(",")
    }

    /// Returns the name of a server.
    pub(super) fn name(&self, index: usize) -> &str {
        &self.servers[index].name
    }

    /// Returns the index of the leader of `stream`, whose loss costs most, or 0 if it is unknown.
    pub(super) fn leader_of(&self, stream: &str) -> usize {
        let mut servers = self.servers.iter();
        let leader = servers.find_map(|server| {
            let state = ask(server.monitor, "/jsz?accounts=true&streams=true").ok()?;
            leader_in(&state, stream)
        });
        let mut servers = self.servers.iter();
        let leads = |server: &NatsServer| Some(&server.name) == leader.as_ref();
        servers.position(leads).unwrap_or(0)
    }

    /// Kills a server (`kill -9`).
    pub(super) fn kill(&mut self, index: usize) {
        // Dropping the child kills it.
        self.servers[index].child = None;
    }

    /// Starts a killed server without waiting for it.
    ///
    /// # Errors
    ///
    /// When the process cannot be started.
    pub(super) fn revive(&mut self, index: usize) -> Outcome<()> {
        let server = &mut self.servers[index];
        let log = File::options()
            .create(true)
            .append(true)
            .open(server.log())
            .context(format_args!("opening {}", server.log().display()))?;
        let mut command = Command::new(&self.program);
        command
            .arg("--config")
            .arg(&server.configuration)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("sharing the log")?)
            .stderr(log);
        server.child = Some(OwnedChild::spawn(&mut command)?);
        Ok(())
    }

    /// Whether a server reports that its data is current.
    pub(super) fn is_well(&self, index: usize) -> bool {
        ask(self.servers[index].monitor, "/healthz").is_ok()
    }

    fn wait_until_healthy(&mut self) -> Outcome<()> {
        for server in &mut self.servers {
            let monitor = server.monitor;
            let child = server.child.as_mut().expect("it was started");
            if !child.wait_until(START_TIMEOUT, || ask(monitor, "/healthz").is_ok())? {
                let said = fs::read_to_string(server.log()).unwrap_or_default();
                return Err(Failure::new(format!(
                    "the NATS server {} does not start; its log:\n{}",
                    server.name,
                    said.trim()
                )));
            }
        }
        Ok(())
    }
}

impl NatsServer {
    fn log(&self) -> PathBuf {
        self.configuration.with_extension("log")
    }
}

/// Reads a document from a monitoring listener.
fn ask(monitor: SocketAddr, path: &str) -> Outcome<Value> {
    ControlClient::new(&format!("http://{monitor}"), None)?.read(path)
}

/// Finds the program: the value of `NATS_SERVER`, or `nats-server` in the `PATH`.
fn program() -> Outcome<PathBuf> {
    if let Some(path) = env::var_os("NATS_SERVER").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).map(|directory| directory.join("nats-server"));
    found.find(|file| file.is_file()).ok_or_else(|| {
        Failure::new(
            "there is no nats-server in the PATH: install NATS 2.10.23 or newer, or set the \
             environment variable NATS_SERVER to its path",
        )
    })
}

/// Returns the leader of a stream in an answer of `/jsz`.
fn leader_in(state: &Value, stream: &str) -> Option<String> {
    let accounts = state["account_details"].as_array()?.iter();
    let mut streams = accounts
        .filter_map(|account| account["stream_detail"].as_array())
        .flatten();
    let found = streams.find(|found| found["name"] == stream)?;
    found["cluster"]["leader"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_leader_is_that_of_the_requested_stream() {
        let state = json!({"account_details": [{"stream_detail": [
            {"name": "other", "cluster": {"leader": "s1"}},
            {"name": "encke-prove", "cluster": {"leader": "s3"}},
        ]}]});
        assert_eq!(leader_in(&state, "encke-prove").as_deref(), Some("s3"));
        assert_eq!(leader_in(&state, "none"), None);
        assert_eq!(leader_in(&json!({}), "encke-prove"), None);
    }
}
