//! `encke proxy`: from configuration to running workers, and to their end.

mod config;
mod latency;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use ::proxy::tcp::{AccessLog, Outputs, Proxy, Settings};
use control::Control;
use serde::Serialize;

use crate::arguments::proxy::ProxyArguments;
use crate::config::LogFormat;
use crate::ending::{self, Ending, Wish};
use crate::failure::Failure;
use crate::output;
use crate::serve::{logs, room};

/// Passes connections on until a signal ends it.
pub(crate) fn run(arguments: &ProxyArguments) -> Result<(), Failure> {
    let config::Configuration {
        settings,
        access_log,
        observer,
    } = config::read(arguments).map_err(Failure::Misused)?;
    if arguments.check_config {
        return output::line("the configuration is right").map(drop);
    }
    logs::start(LogFormat::Text, arguments.log_level);
    room::raise_descriptors();
    let signals = Ending::catch()?;
    let (outputs, writers) = outputs(arguments, access_log.as_deref())?;
    let proxy = Arc::new(Proxy::start(&settings, &outputs).map_err(Failure::failed)?);
    // From now on only workers hold the ends that their writers wait at.
    drop(outputs);
    // Where this fails the process ends, and its workers with it.
    let control = observer.map(|observer| observer.open(Arc::clone(&proxy)));
    let control = control.transpose()?;
    obey(signals, arguments, &settings, &proxy)?;
    let address = control.as_ref().map(Control::address);
    announce(arguments, &settings, &proxy, address)?;
    let ended = proxy.join();
    for writer in writers {
        // One that panicked has said so.
        let _ = writer.join();
    }
    if let Some(control) = control {
        control.stop();
    }
    tracing::info!("ended; {}", proxy.figures());
    ended.map_err(|error| Failure::failed(format_args!("a worker ended before its time: {error}")))
}

fn obey(
    signals: Ending,
    arguments: &ProxyArguments,
    settings: &Settings,
    proxy: &Arc<Proxy>,
) -> Result<(), Failure> {
    let proxy = Arc::clone(proxy);
    let drain_timeout = settings.drain_timeout;
    let reader = config::Reader::new(arguments);
    signals.obey(move |wish| match wish {
        Wish::End => {
            tracing::info!(
                "ending: connections may go on for {drain_timeout:?}; a second signal ends them at \
                 once"
            );
            proxy.end(drain_timeout);
        }
        Wish::Reload => match reader.read() {
            Ok(config) => match proxy.reload(&config.settings.listeners) {
                Ok(()) => tracing::info!(
                    "the configuration is read again: {} listeners",
                    config.settings.listeners.len()
                ),
                Err(error) => tracing::error!("all stays as it was: {error}"),
            },
            Err(problems) => {
                for problem in problems {
                    tracing::error!("all stays as it was: {problem}");
                }
            }
        },
    })
}

/// Where workers' words go, and the threads that write them.
fn outputs(
    arguments: &ProxyArguments,
    access_log: Option<&Path>,
) -> Result<(Outputs, Vec<JoinHandle<()>>), Failure> {
    let (sender, receiver) = mpsc::channel();
    let mut writers = vec![latency::start(receiver, arguments.json)?];
    let mut outputs = Outputs {
        access: None,
        latency: Some(sender),
    };
    if let Some(path) = access_log {
        let (log, writer) = AccessLog::start(open_log(path)?).map_err(|error| {
            Failure::failed(format_args!(
                "the access log's thread cannot be made: {error}"
            ))
        })?;
        outputs.access = Some(log);
        writers.push(writer);
    }
    Ok((outputs, writers))
}

fn open_log(path: &Path) -> Result<Box<dyn Write + Send>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map(|file| Box::new(file) as Box<dyn Write + Send>)
        .map_err(|error| {
            Failure::failed(format_args!(
                "the access log {} cannot be opened: {error}",
                path.display()
            ))
        })
}

fn announce(
    arguments: &ProxyArguments,
    settings: &Settings,
    proxy: &Proxy,
    control: Option<SocketAddr>,
) -> Result<(), Failure> {
    let listen = proxy.addresses();
    for (address, listener) in listen.iter().zip(&settings.listeners) {
        let backends: Vec<&str> = listener.backends.iter().map(|named| &*named.name).collect();
        let _ = output::line(format_args!("proxy {address} -> {}", backends.join(", ")))?;
    }
    if let Some(control) = control {
        let _ = output::line(format_args!("control http://{control}/"))?;
    }
    if let Some(path) = &arguments.ports_file {
        let ports = Ports {
            listen,
            control,
            pid: process::id(),
        };
        ending::write_ports(path, &ports)?;
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct Ports {
    listen: Vec<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<SocketAddr>,
    pid: u32,
}
