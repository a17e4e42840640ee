//! `encke serve`: reads the configuration, starts the server, reloads and stops it.

mod access_log;
mod announce;
mod cluster_node;
mod history;
mod ticker;
mod key_sets;
mod listeners;
mod reload;
mod room;
mod webhook;

use std::env;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ::cluster::Engine;
use clap::Args;
use cli::descriptors;
use cli::epoch;
use cli::failure::Failure;
use cli::logs;
use cli::output;
use cli::signals::{self, Request};
use control::Control;
use eventlog::EventLog;
use graph::Graph;
use machine::signals::Signals;
use rustix::rand::{GetRandomFlags, getrandom};
use sd_notify::NotifyState;
use server::{AccessLog, Server};
use tls::TicketKeys;

use crate::config::{self, Config, Flags, ServeFlags, Sources};
use access_log::AccessLogWriter;
use announce::{Running, tell_manager};
use history::History;
use key_sets::KeySets;
use listeners::Listeners;
use reload::{Loaded, Reloader};
use ticker::Ticker;
use webhook::RunningWebhook;

pub(crate) const HELP: &str = "\
Every setting can be a flag, an environment variable (ENCKE_LISTEN, ENCKE_CONTROL_TOKEN and so on)
or a key of the same name in the configuration file. Flags override variables, and variables
override the file. Times are written as 500ms, 25s or 1m; sizes as 65536, 64KiB or 1MiB.

On SIGHUP the server reads its configuration again and applies what it can without closing a stream;
docs/CONFIGURATION.md says which settings need a restart. A configuration that is not valid changes
nothing.

On SIGTERM or SIGINT the server tells its clients when to reconnect, and then ends. A second signal
ends it at once.

Examples:
  encke serve
  encke serve --workers 64 --private-fds
  encke serve --listen 0.0.0.0:8000 --jwt-key-file issuer.pem --host push.example.org
  encke serve --config encke.toml --check-config";

/// `encke serve`: its settings come from the table of the configuration.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    settings: Flags<ServeFlags>,
    /// Configuration file, in TOML
    #[arg(long, value_name = "FILE", env = "ENCKE_CONFIG")]
    config: Option<PathBuf>,
    /// Check the configuration and exit
    #[arg(long)]
    check_config: bool,
    /// Print the effective configuration with the source of each value, and exit
    #[arg(long)]
    print_config: bool,
}

/// Runs the server until a signal stops it.
pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    let flags = arguments.settings.matches.clone();
    let sources = Sources::new(arguments.config.clone(), env::vars_os(), flags);
    let (layers, problems) = sources.read();
    let config = config::resolve(&layers, problems).map_err(Failure::Misused)?;
    if arguments.print_config {
        let text = config::print(&layers, &config);
        return output::line(text.trim_end()).map(drop);
    }
    if arguments.check_config {
        if let Some(options) = &config.cluster {
            Engine::check(options).map_err(Failure::failed)?;
        }
        return output::line("the configuration is valid").map(drop);
    }
    let log_level = logs::start(config.log_format, config.log_level);
    let loaded = Loaded::new(sources, layers, log_level, &config);
    serve(&config, loaded)
}

/// Starts the parts of the server, waits until a signal stops it, and stops what was started.
fn serve(config: &Config, loaded: Loaded) -> Result<(), Failure> {
    let mut parts = Parts::default();
    let started = start(config, loaded, &mut parts);
    if started.is_err() {
        parts.drain();
    }
    let ended = parts.end();
    if started.is_ok() {
        announce::ended();
    }
    started.and(ended)
}

/// The parts of the server that run, which [`end`](Self::end) stops.
#[derive(Default)]
struct Parts {
    webhook: Option<RunningWebhook>,
    access_log: Option<AccessLogWriter>,
    graph: Option<Arc<Graph>>,
    history: Option<EventLog>,
    server: Option<Server>,
    history_clock: Option<Ticker>,
    presence_clock: Option<Ticker>,
    cluster: Option<cluster_node::Node>,
    control: Option<Control>,
    erlang: Option<erlang::Running>,
}

impl Parts {
    /// Tells the workers to end.
    fn drain(&self) {
        if let Some(server) = &self.server {
            server.handle().drain();
        }
    }

    /// Waits until the workers have ended, and stops the rest.
    fn end(self) -> Result<(), Failure> {
        let workers = stop("workers", self.server, Server::join);
        stop("access log", self.access_log, drop);
        let erlang = stop("Erlang node", self.erlang, erlang::Running::join);
        stop("control API", self.control, Control::stop);
        // All sessions have ended.
        stop("webhook", self.webhook, |running| running.webhook.end());
        stop("clock of the history", self.history_clock, drop);
        stop("clock of presence", self.presence_clock, drop);
        let cluster = stop("cluster", self.cluster, cluster_node::Node::end);
        stop("history", self.history, |log| log.end());
        // There are no more requests for changes; those in flight are made durable.
        stop("graph", self.graph, |graph| graph.end());
        for ended in [workers, erlang].into_iter().flatten() {
            ended.map_err(|error| Failure::failed(format_args!("a worker failed: {error}")))?;
        }
        cluster.flatten().map_or(Ok(()), Err)
    }
}

/// Stops a part, if it was started.
fn stop<P, R>(name: &str, part: Option<P>, end: impl FnOnce(P) -> R) -> Option<R> {
    let ended = end(part?);
    tracing::debug!("stopped: {name}");
    Some(ended)
}

/// Starts the parts of the server, and adds each to `parts`.
fn start(config: &Config, loaded: Loaded, parts: &mut Parts) -> Result<(), Failure> {
    // Changing the environment is safe only while there is one thread.
    let listeners = Listeners::new(config)?;
    let has_demo = listeners.allow_demo(config);
    let Listeners {
        public,
        control: control_listener,
        addresses,
    } = listeners;
    descriptors::raise_limit();
    // Before the workers start: workers with their own descriptor tables have only the descriptors
    // that exist now, and the handler of a signal, which writes to one, may run on any of them.
    let caught = signals::catch()?;
    let threads = control::Threads::start().map_err(Failure::failed)?;
    let secret = has_demo.then(demo_secret).transpose()?;
    let tickets = TicketKeys::new(config::unix_time()).map_err(Failure::failed)?;

    parts.webhook = RunningWebhook::start(config)?;
    parts.access_log = AccessLogWriter::start(config.access_log.as_deref())?;
    let access_log = parts.access_log.as_ref().map(|log| log.log().clone());
    let live = config.live_settings(&tickets).map_err(Failure::failed)?;
    let control_tls = live.tls.clone().filter(|_| config.control_tls);
    let settings = server::Settings {
        observer: parts.webhook.as_ref().and_then(RunningWebhook::observer),
        access_log: access_log.clone(),
        live: Arc::new(live),
        ..config.settings.clone()
    };

    let mut engine = config
        .cluster
        .as_ref()
        .map(cluster_node::join)
        .transpose()?;
    let graph = open_graph(config, engine.as_mut())?;
    parts.graph = Some(Arc::clone(&graph));
    let epoch = engine.as_ref().map(|engine| engine.epoch().to_owned());
    let epoch = epoch.unwrap_or_else(epoch::of_this_run);
    let history = History::open(config, &graph, epoch)?;
    parts.history = history.log;

    let (epoch, recorder) = (history.epoch.clone(), history.recorder);
    let server = Server::start_with(settings, public, epoch, graph, recorder);
    let server = parts.server.insert(server.map_err(Failure::failed)?);
    let handle = server.handle().clone();
    parts.history_clock = Ticker::of_history(&handle).map_err(Failure::failed)?;
    parts.presence_clock = Ticker::of_presence(&handle).map_err(Failure::failed)?;
    if let Some((engine, options)) = engine.zip(config.cluster.as_ref()) {
        parts.cluster = Some(cluster_node::Node::start(engine, options, config, &handle)?);
    }
    handle.declare_metrics(erlang::metric_descriptions());
    if let Some(webhook) = &parts.webhook {
        webhook.follow(&handle, parts.cluster.is_some());
    }

    let webhook = parts.webhook.as_ref();
    let webhook = webhook.map(|running| Arc::clone(&running.webhook));
    let key_set_metrics = control::JwksMetrics::default();
    let control = control::Config {
        listen: control_listener,
        metrics_listen: config.metrics_listen,
        tls: control_tls,
        tokens: config.tokens.clone(),
        event_bytes_max: config.event_bytes,
        head_timeout: config.settings.live.head_timeout,
        demo: secret.map(|secret| control::Demo {
            secret,
            public: server.addresses().to_vec(),
        }),
        client_publish: config.client_publish,
        restored_keys: history.keys,
        key_sets: key_set_metrics.clone(),
        replicated: parts.cluster.as_ref().map(cluster_node::Node::replicated),
        webhook: webhook.clone(),
    };
    let control = control::start(control, threads, handle.clone()).map_err(Failure::failed)?;
    let control = parts.control.insert(control);

    if let Some((settings, worker)) = config.erlang.clone().zip(server.take_external_worker()) {
        let log = parts.cluster.as_ref().map(cluster_node::Node::log);
        let node = erlang::start(settings, &handle, worker, log).map_err(|error| {
            Failure::failed(format_args!("the Erlang node cannot start: {error}"))
        })?;
        parts.erlang = Some(node);
    }

    let mut key_sets = KeySets::new(handle.clone(), key_set_metrics);
    key_sets.set_urls(&config.jwks_urls);
    let reloader = Reloader {
        loaded,
        tickets,
        key_sets,
        server: handle.clone(),
        tokens: control.tokens(),
        control_tls: control.tls(),
        addresses: addresses.clone(),
        webhook,
    };
    handle_signals(caught, reloader, access_log)?;
    if let Some(node) = &parts.cluster {
        node.wait_until_caught_up(&handle)?;
    }
    let (public, tls) = server.addresses().split_at(addresses.public.len());
    let running = Running {
        public,
        tls,
        control: control.address(),
        metrics: control.metrics_address(),
        erlang: parts.erlang.as_ref().map(erlang::Running::address),
        epoch: &history.epoch,
    };
    announce::ready(config, &running)?;
    for warning in addresses.warnings(config) {
        tracing::warn!("{warning}");
    }
    tell_manager(&[NotifyState::Ready]);
    Ok(())
}

fn handle_signals(
    caught: Signals,
    mut reloader: Reloader,
    access_log: Option<AccessLog>,
) -> Result<(), Failure> {
    let server = reloader.server.clone();
    signals::handle(caught, move |request| match request {
        Request::Reload(name) if server.is_draining() => {
            reopen(access_log.as_ref());
            tracing::info!("{name} is ignored: the server is shutting down");
        }
        Request::Reload(_) => {
            // Also if the configuration is invalid: the file may have been moved away.
            reopen(access_log.as_ref());
            let mut states = vec![NotifyState::Reloading];
            // systemd takes a reload without this time for failed.
            states.extend(NotifyState::monotonic_usec_now());
            tell_manager(&states);
            reloader.reload();
            tell_manager(&[NotifyState::Ready]);
        }
        Request::Exit(name) => tracing::warn!("second {name}: ending at once"),
        Request::End(name) => {
            let drain_timeout = server.live_settings().drain_timeout;
            tracing::info!(
                "{name}: shutting down within {drain_timeout:?}; clients are told to reconnect; a \
                 second signal ends the server at once"
            );
            tell_manager(&[NotifyState::Stopping]);
            server.drain();
        }
    })
}

fn reopen(access_log: Option<&AccessLog>) {
    if let Some(log) = access_log {
        log.reopen();
    }
}

/// Opens the graph: that of the cluster if there is one, from its directory if it has one.
fn open_graph(config: &Config, engine: Option<&mut Engine>) -> Result<Arc<Graph>, Failure> {
    if let Some((engine, options)) = engine.zip(config.cluster.as_ref()) {
        return cluster_node::open_graph(config, engine, options).map(Arc::new);
    }
    let Some(path) = &config.data else {
        return Ok(Arc::new(Graph::memory()));
    };
    let start = Instant::now();
    let graph = Graph::open(path).map_err(Failure::failed)?;
    let graph::Counts { ids, edges, .. } = graph.counts();
    let path = path.display();
    let took = start.elapsed();
    tracing::info!("loaded {ids} ids and {edges} subscriptions from {path} in {took:.0?}");
    Ok(Arc::new(graph))
}

/// Returns a secret that no other run has.
fn demo_secret() -> Result<control::DemoSecret, Failure> {
    let mut random = [0; size_of::<u128>()];
    let filled = getrandom(&mut random, GetRandomFlags::empty());
    if filled != Ok(random.len()) {
        return Err(Failure::failed(
            "the system provides no random bits for the secret of --demo; remove --demo",
        ));
    }
    Ok(control::DemoSecret::new(u128::from_ne_bytes(random)))
}
