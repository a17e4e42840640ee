//! `encke-proxy hello`: a server that answers every request with the same response.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use cli::arguments::TokenArguments;
use cli::failure::Failure;
use cli::output;
use cli::ports_file;
use cli::signals::{self, Request};
use cli::units;
use cli::values::{LogFormat, WORKERS, WORKERS_MAX, address};
use cli::{descriptors, logs};
use control::Control;
use proxy::hello::{Answer, Hello, Settings};
use tracing_subscriber::filter::LevelFilter;

use crate::admin::{AdminEndpoints, HelloAdmin, Ports};

pub(crate) const HELP: &str = "\
Request heads are checked as by `encke serve`: an ambiguous head is refused. Request bodies are
skipped. With --private-fds the limit on open files holds for each worker.

--defer-accept saves a system call and a wake-up for each short connection; a client that connects
and sends nothing is not accepted for ten seconds. --fastopen needs a kernel that allows it for
servers (sysctl net.ipv4.tcp_fastopen=3), and fails with an error otherwise.

--control opens read-only admin endpoints for `encke top` and Prometheus. Their address must be on
this machine, or they need a token.

Examples:
  encke-proxy hello
  encke-proxy hello --listen 127.0.0.1:9000 --body '{\"ok\":true}' \
--header 'Content-Type: application/json'
  encke-proxy hello --status 503 --header 'Retry-After: 5'
  encke-proxy hello --control 127.0.0.1:8081";

#[derive(Debug, Args)]
pub(crate) struct HelloArguments {
    /// Address to listen at; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Body of the answer [default: hello, or none if the status allows no body]
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// Status of the answer
    #[arg(long, value_name = "CODE", default_value_t = 200)]
    status: u16,
    /// Header field of the answer, as `Name: value`; may be repeated
    #[arg(long, value_name = "FIELD")]
    header: Vec<String>,
    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(WORKERS))]
    workers: Option<u16>,
    /// Give each worker a descriptor table of its own, so that the limit on open files holds for
    /// each
    #[arg(long)]
    private_fds: bool,
    /// Accept connections only after their requests have come (TCP_DEFER_ACCEPT)
    #[arg(long)]
    defer_accept: bool,
    /// Accept requests in the first packet of a connection (TCP Fast Open)
    #[arg(long)]
    fastopen: bool,
    // Not ENCKE_CONTROL: there, commands find the control listener of a server.
    /// Address of read-only admin endpoints (/v1/stats, /metrics, /healthz); port 0 takes a free
    /// one [default: none]
    #[arg(long, value_name = "ADDRESS", env = "ENCKE_HELLO_CONTROL", value_parser = address)]
    control: Option<SocketAddr>,
    #[command(flatten)]
    token: TokenArguments,
    /// Close a connection that is silent for this long
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = units::duration)]
    idle_timeout: Duration,
    /// File to write the address and the process id to, as JSON, when the server is ready
    #[arg(long, value_name = "FILE")]
    ports_file: Option<PathBuf>,
}

/// Serves until a signal stops it.
pub(crate) fn run(arguments: &HelloArguments) -> Result<(), Failure> {
    let bodiless = matches!(arguments.status, 204 | 304);
    let body = arguments.body.as_deref();
    let body = body.unwrap_or(if bodiless { "" } else { "hello" });
    let answer = Answer::new(arguments.status, &arguments.header, body.as_bytes())
        .map_err(Failure::misused)?;
    if arguments.fastopen {
        check_fast_open()?;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let admin = admin(arguments).map_err(Failure::misused)?;
    logs::start(LogFormat::Text, LevelFilter::INFO);
    descriptors::raise_limit();
    let caught = signals::catch()?;
    let hello = Hello::start(Settings {
        listen: arguments.listen,
        answer,
        workers: arguments
            .workers
            .unwrap_or(cores.min(usize::from(WORKERS_MAX)) as u16),
        private_fds: arguments.private_fds,
        idle_timeout: arguments.idle_timeout,
        defer_accept: arguments.defer_accept,
        fast_open: arguments.fastopen,
    })
    .map_err(Failure::failed)?;
    let hello = Arc::new(hello);
    let ending = Arc::clone(&hello);
    // If this fails, the process ends, and its workers with it.
    let control = admin.map(|endpoints| endpoints.serve(HelloAdmin(Arc::clone(&hello))));
    let control = control.transpose()?;
    signals::handle(caught, move |request| {
        if let Request::End(_) = request {
            ending.end();
        }
    })?;
    let ports = Ports {
        listen: hello.address(),
        control: control.as_ref().map(Control::address),
        pid: process::id(),
    };
    if let Some(path) = &arguments.ports_file {
        ports_file::write(path, &ports)?;
    }
    let _ = output::line(format_args!("hello at http://{}/", hello.address()))?;
    if let Some(control) = ports.control {
        let _ = output::line(format_args!("control at http://{control}/"))?;
    }
    let ended = hello.join();
    if let Some(control) = control {
        control.stop();
    }
    ended.map_err(|error| Failure::failed(format_args!("a worker failed: {error}")))
}

/// Returns the settings of the admin endpoints, if they are configured.
fn admin(arguments: &HelloArguments) -> Result<Option<AdminEndpoints>, String> {
    let Some(listen) = arguments.control else {
        return Ok(None);
    };
    AdminEndpoints::new(listen, arguments.token.secret()?).map(Some)
}

/// The bit of `net.ipv4.tcp_fastopen` that lets servers take data with the first packet
/// (ip-sysctl).
const FAST_OPEN_BIT: u32 = 0x2;

fn check_fast_open() -> Result<(), Failure> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen").unwrap_or_default();
    let found: u32 = text.trim().parse().unwrap_or(0);
    if found & FAST_OPEN_BIT != 0 {
        return Ok(());
    }
    Err(Failure::failed(format_args!(
        "net.ipv4.tcp_fastopen is {found}, which does not allow fast open for servers; run \
         `sysctl -w net.ipv4.tcp_fastopen={}`, or remove --fastopen",
        found | FAST_OPEN_BIT
    )))
}
