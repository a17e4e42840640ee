//! `encke-proxy hello`: a server that answers every request with the same response.

/// Arguments of the command.
pub(crate) mod arguments;

use std::fs;
use std::process;
use std::sync::Arc;
use std::thread;

use cli::failure::Failure;
use cli::output;
use cli::ports_file;
use cli::signals::{self, Request};
use cli::values::LogFormat;
use cli::values::WORKERS_MAX;
use cli::{descriptors, logs};
use control::Control;
use proxy::hello::{Answer, Hello, Settings};
use tracing_subscriber::filter::LevelFilter;

use crate::admin::{AdminEndpoints, HelloAdmin, Ports};
use arguments::HelloArguments;

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
