//! `encke-proxy tcp`: reads the configuration, starts the workers, reloads and stops them.

/// Arguments of the command.
pub(crate) mod arguments;
mod config;
mod latency;

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cli::failure::Failure;
use cli::output;
use cli::ports_file;
use cli::signals::{self, Request};
use cli::values::LogFormat;
use cli::{descriptors, logs};
use control::Control;
use machine::signals::Signals;
use proxy::tcp::{
    AccessLog, AccessOutput, AccessReopener, LATENCY_REPORTS_WAITING, Outputs, Proxy, Settings,
};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::admin::{Ports, ProxyAdmin};
use arguments::{ConfigSources, ProxyArguments};

/// Relays connections until a signal stops it.
pub(crate) fn run(arguments: &ProxyArguments) -> Result<(), Failure> {
    let config::Configuration {
        settings,
        access_log,
        admin,
    } = arguments.sources.read().map_err(Failure::Misused)?;
    if arguments.sources.check_config {
        return output::line("the configuration is valid").map(drop);
    }
    logs::start(LogFormat::Text, arguments.log_level);
    descriptors::raise_limit();
    let caught = signals::catch()?;
    let (outputs, writers) = outputs(arguments, access_log)?;
    let reopener = outputs.access.as_ref().map(AccessLog::reopener);
    let proxy = Arc::new(Proxy::start(&settings, &outputs).map_err(Failure::failed)?);
    // From now on only workers hold the senders, so the writers end with the workers.
    drop(outputs);
    // If this fails, the process ends, and its workers with it.
    let control = admin.map(|endpoints| endpoints.serve(ProxyAdmin(Arc::clone(&proxy))));
    let control = control.transpose()?;
    handle_signals(caught, arguments, &settings, &proxy, reopener)?;
    let address = control.as_ref().map(Control::address);
    announce(arguments, &settings, &proxy, address)?;
    let ended = proxy.join();
    await_writers(writers);
    if let Some(control) = control {
        control.stop();
    }
    tracing::info!("ended; {}", proxy.snapshot());
    ended.map_err(|error| Failure::failed(format_args!("a worker failed: {error}")))
}

fn handle_signals(
    caught: Signals,
    arguments: &ProxyArguments,
    settings: &Settings,
    proxy: &Arc<Proxy>,
    reopener: Option<AccessReopener>,
) -> Result<(), Failure> {
    let proxy = Arc::clone(proxy);
    let drain_timeout = settings.drain_timeout;
    let sources = arguments.sources.clone();
    signals::handle(caught, move |request| match request {
        Request::End(_) => {
            tracing::info!(
                "shutting down: connections may go on for {drain_timeout:?}; a second signal \
                 closes them at once"
            );
            proxy.end(drain_timeout);
        }
        Request::Exit(_) => {}
        Request::Reload(_) => {
            if let Some(reopener) = &reopener {
                reopener.reopen();
            }
            reload(&proxy, &sources);
        }
    })
}

fn reload(proxy: &Proxy, sources: &ConfigSources) {
    let problems = match sources.read() {
        Ok(config) => {
            let listeners = &config.settings.listeners;
            match proxy.reload(listeners) {
                Ok(()) => {
                    let count = listeners.len();
                    tracing::info!("the configuration was reloaded: {count} listeners");
                    return;
                }
                Err(error) => vec![error.to_string()],
            }
        }
        Err(problems) => problems,
    };
    for problem in problems {
        tracing::error!("the reload failed and changed nothing: {problem}");
    }
}

/// Returns the outputs of the workers, and the threads that write them.
fn outputs(
    arguments: &ProxyArguments,
    access_log: Option<PathBuf>,
) -> Result<(Outputs, Vec<JoinHandle<()>>), Failure> {
    let (sender, receiver) = mpsc::sync_channel(LATENCY_REPORTS_WAITING);
    let mut writers = vec![latency::start(receiver, arguments.report.json)?];
    let mut outputs = Outputs {
        access: None,
        latency: Some(sender),
    };
    if let Some(path) = access_log {
        let out = open_log(&path).map_err(|error| {
            let path = path.display();
            Failure::failed(format_args!(
                "the access log {path} cannot be opened: {error}"
            ))
        })?;
        let started = AccessLog::start(out, move || open_log(&path));
        let (log, writer) = started.map_err(|error| {
            Failure::failed(format_args!(
                "the thread of the access log cannot be started: {error}"
            ))
        })?;
        outputs.access = Some(log);
        writers.push(writer);
    }
    Ok((outputs, writers))
}

fn open_log(path: &Path) -> io::Result<AccessOutput> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    // With this flag a FIFO without a reader is an error; without it `open` would block.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut options = OpenOptions::new();
    let opened = options
        .create(true)
        .append(true)
        .custom_flags(flags)
        .open(path);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::other("no program reads the FIFO; start its reader first"),
        _ => error,
    })?;
    // Later writes to a slow reader block.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(Box::new(file))
}

/// Time for the last lines to be written. A reader that is stuck must not block the shutdown.
const LAST_LINES: Duration = Duration::from_secs(1);

fn await_writers(writers: Vec<JoinHandle<()>>) {
    let (done, written) = mpsc::sync_channel::<()>(0);
    thread::spawn(move || {
        for writer in writers {
            // A panic was reported by the thread.
            let _ = writer.join();
        }
        drop(done);
    });
    if written.recv_timeout(LAST_LINES) == Err(RecvTimeoutError::Timeout) {
        tracing::warn!(
            "the last lines of the access log or of the latency report are lost: no program reads \
             them"
        );
    }
}

fn announce(
    arguments: &ProxyArguments,
    settings: &Settings,
    proxy: &Proxy,
    control: Option<SocketAddr>,
) -> Result<(), Failure> {
    let listen = proxy.addresses();
    // With --json nothing else goes to standard output.
    let say = |line: fmt::Arguments<'_>| match arguments.report.json {
        true => {
            tracing::info!("{line}");
            Ok(())
        }
        false => output::line(line).map(drop),
    };
    for (address, listener) in listen.iter().zip(&settings.listeners) {
        let backends: Vec<&str> = listener.backends.iter().map(|named| &*named.name).collect();
        say(format_args!("proxy {address} -> {}", backends.join(", ")))?;
    }
    if let Some(control) = control {
        say(format_args!("control http://{control}/"))?;
    }
    if let Some(path) = &arguments.ports_file {
        let ports = Ports {
            listen,
            control,
            pid: process::id(),
        };
        ports_file::write(path, &ports)?;
    }
    Ok(())
}
