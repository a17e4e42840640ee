//! What can be said to `encke hello`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::WORKERS;

use super::TokenArguments;
use crate::config::address;
use crate::units;

pub(crate) const HELP: &str = "\
Heads are judged as `encke serve` judges them: what two readers could read differently is refused.
Bodies of requests are passed over. Under --private-fds the limit on open files counts for each worker.

--defer-accept spares a system call and a wake-up for each short connection; who connects and says
nothing is not seen for ten seconds. --fastopen needs the kernel to grant it to servers
(sysctl net.ipv4.tcp_fastopen=3) and says so if it does not.

It needs no control listener and has none unless told --control. There `encke top` and Prometheus
look, and nobody gives orders; it must be on this machine, or have a token.

Examples:
  encke hello
  encke hello --listen 127.0.0.1:9000 --body '{\"ok\":true}' --header 'Content-Type: application/json'
  encke hello --status 503 --header 'Retry-After: 5'
  encke hello --control 127.0.0.1:8081";

#[derive(Debug, Args)]
pub(crate) struct HelloArguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
    /// Body of the answer [default: hello, or none where the status has none]
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,
    /// Status of the answer
    #[arg(long, value_name = "CODE", default_value_t = 200)]
    pub(crate) status: u16,
    /// A header field of the answer, as `Name: value`; may be repeated
    #[arg(long, value_name = "FIELD")]
    pub(crate) header: Vec<String>,
    /// Threads that serve [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(WORKERS))]
    pub(crate) workers: Option<u16>,
    /// Give each worker a descriptor table of its own
    #[arg(long)]
    pub(crate) private_fds: bool,
    /// Accept connections only when their requests have come (TCP_DEFER_ACCEPT)
    #[arg(long)]
    pub(crate) defer_accept: bool,
    /// Let requests come with the first packet (TCP Fast Open)
    #[arg(long)]
    pub(crate) fastopen: bool,
    // Not ENCKE_CONTROL: that says where a server is to those who talk to it.
    /// Where `encke top` and others may look (/v1/stats, /metrics, /healthz); port 0 takes a free
    /// one [default: nowhere]
    #[arg(long, value_name = "ADDRESS", env = "ENCKE_HELLO_CONTROL", value_parser = address)]
    pub(crate) control: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) token: TokenArguments,
    /// How long a connection may be silent
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = units::duration)]
    pub(crate) idle_timeout: Duration,
    /// File to write the address and the process id to, as JSON, when the server is ready
    #[arg(long, value_name = "FILE")]
    pub(crate) ports_file: Option<PathBuf>,
}
