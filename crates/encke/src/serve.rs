//! `encke serve`: reads the configuration, starts the server, reloads and stops it.

mod access_log;
mod announce;
mod cluster;
mod history;
mod history_clock;
mod presence_clock;
mod inherited;
mod key_sets;
mod listeners;
mod reload;
mod room;
mod webhook;

use std::env;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cli::descriptors;
use cli::epoch;
use cli::failure::Failure;
use cli::logs;
use cli::output;
use cli::signals::{self, Request};
use graph::Graph;
use machine::signals::Signals;
use rustix::rand::{GetRandomFlags, getrandom};
use sd_notify::NotifyState;
use server::{AccessLog, DemoSecret, Server};
use tls::TicketKeys;

use crate::arguments::ServeArguments;
use crate::config::{self, Config, Sources};
use access_log::AccessLogWriter;
use announce::Running;
use history::History;
use history_clock::HistoryClock;
use inherited::Inherited;
use key_sets::KeySets;
use listeners::Listeners;
use presence_clock::PresenceClock;
use reload::{Loaded, Reloader};

/// Runs the server until a signal stops it.
pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    let own = &arguments.own;
    let flags = arguments.settings.clone();
    let sources = Sources::new(own.config.clone(), env::vars_os(), flags);
    let (layers, problems) = sources.read();
    let config = config::resolve(&layers, problems).map_err(Failure::Misused)?;
    if own.print_config {
        let text = config::print(&layers, &config);
        return output::line(text.trim_end()).map(drop);
    }
    if own.check_config {
        if let Some(options) = &config.cluster {
            cluster::check(options)?;
        }
        return output::line("the configuration is valid").map(drop);
    }
    let log_level = logs::start(config.log_format, config.log_level);
    let loaded = Loaded::new(sources, layers, log_level, &config);
    serve(config, loaded)
}

fn serve(config: Config, loaded: Loaded) -> Result<(), Failure> {
    // Changing the environment is safe only while there is one thread.
    let inherited = Inherited::take()?;
    let listeners = Listeners::new(&config, inherited)?;
    let demo = listeners.allow_demo(&config);
    let Listeners {
        public,
        control,
        addresses,
    } = listeners;
    descriptors::raise_limit();
    // Before the workers start: workers with their own descriptor tables have only the descriptors
    // that exist now, and the handler of a signal, which writes to one, may run on any of them.
    let caught = signals::catch()?;
    let threads = control::Threads::start().map_err(Failure::failed)?;

    let secret = demo.then(demo_secret).transpose()?;
    let tickets = TicketKeys::new(config::unix_time()).map_err(Failure::failed)?;
    let live = config.live_settings(&tickets).map_err(Failure::failed)?;
    let control_tls = live.tls.clone().filter(|_| config.control_tls);
    let node = config.cluster.as_ref().map(|options| options.node.as_str());
    let webhook = webhook::start(config.webhook.as_ref(), node)?;
    let access_log = AccessLogWriter::start(config.access_log.as_deref())?;
    let settings = server::Settings {
        demo,
        observer: webhook
            .as_ref()
            .and_then(|(_, queue)| webhook::observer(queue)),
        access_log: access_log.as_ref().map(|writer| writer.log().clone()),
        live: Arc::new(live),
        ..config.settings.clone()
    };
    let mut engine = config.cluster.as_ref().map(cluster::join).transpose()?;
    let graph = match engine.as_mut().zip(config.cluster.as_ref()) {
        Some((engine, options)) => cluster::open_graph(config.data.as_deref(), engine, options)?,
        None => open_graph(config.data.as_deref())?,
    };
    let graph = Arc::new(graph);
    let new_epoch = engine.as_ref().map(|engine| engine.epoch().to_owned());
    let new_epoch = new_epoch.unwrap_or_else(epoch::of_this_run);
    let History {
        epoch,
        recorder,
        log,
        keys,
    } = History::open(&config, &graph, new_epoch)?;
    let (name, shared) = (epoch.clone(), Arc::clone(&graph));
    let mut server =
        Server::start_with(settings, public, name, shared, recorder).map_err(Failure::failed)?;
    let clock = HistoryClock::start(server.handle()).map_err(Failure::failed)?;
    let presence_clock = PresenceClock::start(server.handle()).map_err(Failure::failed)?;
    let cluster_node = match engine.zip(config.cluster.as_ref()) {
        Some((engine, options)) => {
            let history_bytes = config.settings.history.map_or(0, |limits| limits.bytes);
            let has_directory = config.data.is_some();
            let server_handle = server.handle();
            match cluster::Node::start(engine, options, server_handle, history_bytes, has_directory)
            {
                Ok(node) => Some(node),
                Err(failure) => {
                    server.handle().drain();
                    let _ = server.join();
                    return Err(failure);
                }
            }
        }
        None => None,
    };
    let demo = secret.map(|secret| control::Demo {
        secret,
        public: server.addresses().to_vec(),
    });
    server
        .handle()
        .declare_metrics(erlang::metric_descriptions());
    let key_set_metrics = control::JwksMetrics::default();
    let presence = server
        .handle()
        .presence()
        .map(|presence| control::Presence {
            online: Arc::clone(presence.online()),
            feed: Arc::clone(presence.feed()),
        });
    if let Some((_, queue)) = &webhook {
        webhook::follow(server.handle(), cluster_node.is_some(), queue);
    }
    let control = control::Config {
        listen: control,
        metrics_listen: config.metrics_listen,
        tls: control_tls,
        tokens: config.tokens.clone(),
        event_bytes_max: config.event_bytes,
        head_timeout: config.settings.live.head_timeout,
        demo,
        client_publish: config.client_publish,
        restored_keys: keys,
        key_sets: key_set_metrics.clone(),
        replicated: cluster_node.as_ref().map(cluster::Node::replicated),
        webhook: webhook.as_ref().map(|(webhook, _)| Arc::clone(webhook)),
        presence: presence.clone(),
    };
    let control = match control::start(control, threads, server.handle().clone()) {
        Ok(control) => control,
        Err(error) => {
            server.handle().drain();
            let _ = server.join();
            return Err(Failure::failed(error));
        }
    };

    let log_of_cluster = cluster_node.as_ref().map(cluster::Node::log);
    let node = match config.erlang.clone().zip(server.take_external_worker()) {
        Some((settings, worker)) => {
            match erlang::start(settings, server.handle(), worker, log_of_cluster) {
                Ok(node) => Some(node),
                Err(error) => {
                    server.handle().drain();
                    let _ = server.join();
                    return Err(Failure::failed(format_args!(
                        "the Erlang node cannot start: {error}"
                    )));
                }
            }
        }
        None => None,
    };

    let mut key_sets = KeySets::new(server.handle().clone(), key_set_metrics);
    key_sets.set_urls(&config.jwks_urls);
    let reloader = Reloader {
        loaded,
        tickets,
        key_sets,
        server: server.handle().clone(),
        tokens: control.tokens(),
        control_tls: control.tls(),
        addresses: addresses.clone(),
        webhook: webhook.as_ref().map(|(webhook, _)| Arc::clone(webhook)),
    };
    let reopened = access_log.as_ref().map(|writer| writer.log().clone());
    handle_signals(caught, reloader, reopened)?;
    if let Some(node) = &cluster_node {
        node.wait_until_caught_up(server.handle())?;
    }
    let (public, tls) = server.addresses().split_at(addresses.public.len());
    let running = Running {
        public,
        tls,
        control: control.address(),
        metrics: control.metrics_address(),
        erlang: node.as_ref().map(erlang::Running::address),
        epoch: &epoch,
    };
    announce::ready(&config, &running)?;
    for warning in addresses.warnings(&config) {
        tracing::warn!("{warning}");
    }
    tell_manager(&[NotifyState::Ready]);

    let ended = server.join();
    drop(access_log);
    let node_ended = node.map_or(Ok(()), erlang::Running::join);
    control.stop();
    // All sessions have ended.
    if let Some((webhook, _)) = webhook {
        webhook.end();
    }
    drop(clock);
    drop(presence_clock);
    let mut failure = None;
    if let Some(node) = cluster_node {
        failure = node.failure();
        node.end();
    }
    if let Some(log) = log {
        log.end();
    }
    // There are no more requests for changes; those in flight are made durable.
    graph.end();
    announce::ended();
    ended
        .and(node_ended)
        .map_err(|error| Failure::failed(format_args!("a worker failed: {error}")))?;
    failure.map_or(Ok(()), Err)
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

/// Opens the graph, from its directory if it has one.
fn open_graph(data: Option<&Path>) -> Result<Graph, Failure> {
    let Some(path) = data else {
        return Ok(Graph::memory());
    };
    let start = Instant::now();
    let graph = Graph::open(path).map_err(Failure::failed)?;
    let graph::Counts { ids, edges, .. } = graph.counts();
    let path = path.display();
    let took = start.elapsed();
    tracing::info!("loaded {ids} ids and {edges} subscriptions from {path} in {took:.0?}");
    Ok(graph)
}

/// Returns a secret that no other run has.
fn demo_secret() -> Result<DemoSecret, Failure> {
    let mut random = [0; size_of::<u128>()];
    let filled = getrandom(&mut random, GetRandomFlags::empty());
    if filled != Ok(random.len()) {
        return Err(Failure::failed(
            "the system provides no random bits for the secret of --demo; remove --demo",
        ));
    }
    Ok(DemoSecret::new(u128::from_ne_bytes(random)))
}

/// Notifies systemd, if it started this process.
fn tell_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("the service manager could not be notified of {states:?}: {error}");
    }
}
