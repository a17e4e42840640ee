//! Output for operators, scripts and systemd when the server is ready, and at its end.

use std::net::SocketAddr;
use std::process;

use cli::failure::Failure;
use cli::output;
use cli::ports_file;
use cli::values::LogFormat;
use sd_notify::NotifyState;
use serde::Serialize;

use super::room::Room;
use crate::config::Config;

/// Addresses of a server that is ready: the bound ones, never port 0.
#[derive(Debug, Serialize)]
pub(super) struct Running<'a> {
    /// All public listeners without TLS, in the order in which they were given.
    #[serde(rename = "listen")]
    pub(super) public: &'a [SocketAddr],
    /// All public listeners with TLS.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) tls: &'a [SocketAddr],
    pub(super) control: SocketAddr,
    /// The listener for metrics alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metrics: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) erlang: Option<SocketAddr>,
    #[serde(skip)]
    pub(super) epoch: &'a str,
}

/// Content of the ports file.
#[derive(Debug, Serialize)]
struct Ports<'a> {
    /// The first public listener without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    public: Option<SocketAddr>,
    #[serde(flatten)]
    running: &'a Running<'a>,
    pid: u32,
}

/// Reports the addresses of the server and the number of connections it can hold.
pub(super) fn ready(config: &Config, running: &Running<'_>) -> Result<(), Failure> {
    let Running {
        public,
        tls,
        control,
        metrics,
        erlang,
        epoch,
    } = running;
    let version = env!("CARGO_PKG_VERSION");
    let (workers, buffers) = (config.settings.workers, &config.buffers);
    let room = Room::measure(config);
    let node = config.erlang.as_ref().map(|node| &node.name).zip(*erlang);
    let scheme = if config.control_tls { "https" } else { "http" };
    match config.log_format {
        LogFormat::Text => {
            let node = node.map_or_else(String::new, |(name, address)| {
                format!("erlang   {name}, at {address}\n")
            });
            let metrics = metrics.map_or_else(String::new, |address| {
                format!("metrics  {scheme}://{address}/metrics\n")
            });
            let plural = if workers == 1 { "" } else { "s" };
            let public = lines("public   http://", public) + &lines("public   https://", tls);
            let _ = output::line(format_args!(
                "Encke {version}, run {epoch}, {workers} worker{plural}\n\
                 {public}\
                 control  {scheme}://{control}/\n\
                 console  {scheme}://{control}/console\n\
                 {metrics}{node}\
                 buffers  {buffers}\n\
                 {room}"
            ))?;
        }
        LogFormat::Json => tracing::info!(
            version,
            epoch = *epoch,
            workers,
            public = %join(public),
            tls = (!tls.is_empty()).then(|| tracing::field::display(join(tls))),
            control = %control,
            metrics = metrics.map(tracing::field::display),
            erlang = node.map(|(_, address)| tracing::field::display(address)),
            erlang_name = node.map(|(name, _)| tracing::field::display(name)),
            buffers = %buffers,
            room = room.connections(),
            "ready"
        ),
    }
    if let Some(warning) = room.warning() {
        tracing::warn!("{warning}");
    }
    // Last: when a script sees the file, all lines are in the output.
    if let Some(path) = &config.ports_file {
        let ports = Ports {
            public: public.first().copied(),
            running,
            pid: process::id(),
        };
        ports_file::write(path, &ports)?;
    }
    Ok(())
}

/// Returns a line for each address.
fn lines(before: &str, addresses: &[SocketAddr]) -> String {
    let lines = addresses
        .iter()
        .map(|address| format!("{before}{address}/\n"));
    lines.collect()
}

fn join(addresses: &[SocketAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// Logs the end of the server.
pub(super) fn ended() {
    tracing::info!("ended");
}

/// Notifies systemd, if it started this process.
pub(super) fn tell_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("the service manager could not be notified of {states:?}: {error}");
    }
}
