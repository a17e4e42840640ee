//! Arguments of `encke-proxy hello`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cli::arguments::TokenArguments;
use cli::units;
use cli::values::WORKERS;
use cli::values::address;

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
    pub(crate) listen: SocketAddr,
    /// Body of the answer [default: hello, or none if the status allows no body]
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,
    /// Status of the answer
    #[arg(long, value_name = "CODE", default_value_t = 200)]
    pub(crate) status: u16,
    /// Header field of the answer, as `Name: value`; may be repeated
    #[arg(long, value_name = "FIELD")]
    pub(crate) header: Vec<String>,
    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(WORKERS))]
    pub(crate) workers: Option<u16>,
    /// Give each worker a descriptor table of its own, so that the limit on open files holds for
    /// each
    #[arg(long)]
    pub(crate) private_fds: bool,
    /// Accept connections only after their requests have come (TCP_DEFER_ACCEPT)
    #[arg(long)]
    pub(crate) defer_accept: bool,
    /// Accept requests in the first packet of a connection (TCP Fast Open)
    #[arg(long)]
    pub(crate) fastopen: bool,
    // Not ENCKE_CONTROL: there, commands find the control listener of a server.
    /// Address of read-only admin endpoints (/v1/stats, /metrics, /healthz); port 0 takes a free
    /// one [default: none]
    #[arg(long, value_name = "ADDRESS", env = "ENCKE_HELLO_CONTROL", value_parser = address)]
    pub(crate) control: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) token: TokenArguments,
    /// Close a connection that is silent for this long
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = units::duration)]
    pub(crate) idle_timeout: Duration,
    /// File to write the address and the process id to, as JSON, when the server is ready
    #[arg(long, value_name = "FILE")]
    pub(crate) ports_file: Option<PathBuf>,
}
