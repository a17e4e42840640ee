//! The configuration of `encke serve`: flags override the environment, which overrides the file.
//!
//! Owns the meaning of each value and which values exclude each other. All problems are reported at
//! once.

mod node;
mod cluster_options;
mod fields;
mod key;
mod keys;
mod layers;
mod reader;
mod changes;
mod listeners;
mod tls;
mod identity;
mod history;
mod presence_settings;
mod webhook;
mod buffers;
mod print;
mod values;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::tls::TicketKeys;
use ::webhook::outside::OutsideUrl;
use auth::Policy;
use cli::secret::{Secret, read_private_text};
use cli::values::{LogFormat, address};
use control::Tokens;
use server::{AllowedHosts, LiveSettings, Settings};
use tracing_subscriber::filter::LevelFilter;

pub(crate) use buffers::BufferBound;
pub(crate) use changes::{Changes, FileDigests};
pub(crate) use history::HistoryDir;
use keys::Key;
pub(crate) use keys::{Flags, ImportFlags, ServeFlags};
pub(crate) use layers::{Layers, Sources};
pub(crate) use listeners::Addresses;
pub(crate) use print::print;
use reader::{Reader, known};
pub(crate) use tls::{Tls, now as unix_time};
use values::{
    default_workers, directory, event_bytes, host, log_format, log_level, origin, switch, workers,
};
pub(crate) use webhook::WebhookConfig;

/// Configuration of the server. Built once at start.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) addresses: Addresses,
    pub(crate) allow_anonymous: bool,
    /// Address of a further listener that has only metrics and health checks.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Whether the control listener and the one for metrics use TLS.
    pub(crate) control_tls: bool,
    /// Tokens of the control API. If there are none, programs on this machine need none.
    pub(crate) tokens: Tokens,
    /// Certificates of TLS listeners.
    pub(crate) tls: Option<Tls>,
    /// Whether the page may publish, provided that only this machine reaches the listeners.
    pub(crate) demo: bool,
    /// Data directory of the graph; `None` keeps it in memory only.
    pub(crate) data: Option<PathBuf>,
    /// Directory of the history; `None` keeps it in memory only.
    pub(crate) history_dir: Option<HistoryDir>,
    /// Settings of the cluster, if this server is a node of one.
    pub(crate) cluster: Option<::cluster::Options>,
    pub(crate) event_bytes: usize,
    /// Whether clients may publish, as their tokens allow.
    pub(crate) client_publish: bool,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: LevelFilter,
    pub(crate) ports_file: Option<PathBuf>,
    /// File of the access log; `-` for standard output.
    pub(crate) access_log: Option<PathBuf>,
    pub(crate) erlang: Option<erlang::Settings>,
    /// Settings of the webhook, if it is configured.
    pub(crate) webhook: Option<WebhookConfig>,
    /// The bound on buffers, and where it comes from.
    pub(crate) buffers: BufferBound,
    /// Addresses of key sets with which tokens are verified.
    pub(crate) jwks_urls: Vec<OutsideUrl>,
    /// Settings of the data path, except for the demo page, which depends on the listeners.
    pub(crate) settings: Settings,
}

impl Config {
    /// Returns the settings that a reload can change, with those of TLS listeners.
    ///
    /// # Errors
    ///
    /// When the cryptographic library fails. The error is a sentence.
    pub(crate) fn live_settings(&self, tickets: &TicketKeys) -> Result<LiveSettings, String> {
        let tls = self.tls.as_ref().map(|tls| tls.server_config(tickets));
        Ok(LiveSettings {
            tls: tls.transpose()?,
            ..LiveSettings::clone(&self.settings.live)
        })
    }
}

/// Settings of `encke cluster import`.
#[derive(Debug)]
pub(crate) struct ImportConfig {
    /// Data directory whose graph is imported.
    pub(crate) data: PathBuf,
    /// Settings of the cluster.
    pub(crate) cluster: ::cluster::Options,
}

/// Parses the settings of an import.
///
/// # Errors
///
/// When a setting is invalid. The error has a sentence for each problem, those in `problems` first.
pub(crate) fn resolve_import(
    layers: &Layers,
    problems: Vec<String>,
) -> Result<ImportConfig, Vec<String>> {
    let mut reader = Reader { layers, problems };
    let data = reader.get("data", directory);
    let event_bytes = reader.get("event-bytes", event_bytes);
    let cluster = reader.cluster_of_import(event_bytes);
    if cluster.is_none() && reader.problems.is_empty() {
        reader.problem(
            "the servers of the cluster's engine are not given; set --cluster, for example to \
             nats://10.0.0.1,10.0.0.2,10.0.0.3",
        );
    }
    match (cluster, reader.problems) {
        (Some(cluster), problems) if problems.is_empty() => Ok(ImportConfig { data, cluster }),
        (_, problems) => Err(problems),
    }
}

/// Parses the settings.
///
/// # Errors
///
/// When a setting is invalid. The error has a sentence for each problem, those in `problems` first.
pub(crate) fn resolve(layers: &Layers, problems: Vec<String>) -> Result<Config, Vec<String>> {
    let mut reader = Reader { layers, problems };
    let config = reader.config();
    match reader.problems {
        problems if problems.is_empty() => Ok(config),
        problems => Err(problems),
    }
}

impl Reader<'_> {
    fn config(&mut self) -> Config {
        let addresses = self.addresses();
        let allow_anonymous = self.get("allow-anonymous", switch);
        let tokens = self.tokens();
        let tls = self.tls();
        let event_bytes = self.get("event-bytes", event_bytes);
        let data = self.data();
        let erlang = self.erlang(event_bytes, data.clone());
        let identity = self.identity();
        let buffers = self.buffers();
        let mut settings = self.settings(identity.policy, buffers.bytes);
        settings.history = self.history(event_bytes);
        let history_dir = self.history_dir(settings.history, data.as_deref());
        let cluster = self.cluster(event_bytes, history_dir.is_some());
        settings.external_workers = u16::from(erlang.is_some());
        let login_check = erlang.as_ref().and_then(|node| node.login_check.as_ref());
        settings.login_check = login_check.is_some();
        settings.presence = self.presence(cluster.is_some());
        let config = Config {
            addresses,
            allow_anonymous,
            metrics_listen: self.find("metrics-listen", address),
            control_tls: self.get("control-tls", switch),
            tokens,
            tls,
            demo: self.get("demo", switch),
            data,
            history_dir,
            cluster,
            event_bytes,
            client_publish: self.get("client-publish", switch),
            log_format: self.get("log-format", log_format),
            log_level: self.get("log-level", log_level),
            erlang,
            webhook: self.webhook(),
            ports_file: self.find("ports-file", |text| Ok(PathBuf::from(text))),
            access_log: self.find("access-log", |text| Ok(PathBuf::from(text))),
            buffers,
            jwks_urls: identity.jwks_urls,
            settings,
        };
        if let Err(problems) = config.addresses.check(&config) {
            self.problems.extend(problems);
        }
        if config.demo && !config.settings.live.page {
            self.problem(
                "--demo lets the page at / publish, and --page=false switches that page off; \
                 remove one of them",
            );
        }
        if config.demo && config.control_tls {
            self.problem(
                "--demo lets the page at / use the control listener without TLS, and --control-tls \
                 serves that listener over TLS; remove one of them",
            );
        }
        config
    }

    /// Returns the settings of the data path, as far as they depend on no others.
    fn settings(&mut self, policy: Policy, buffer_bytes: usize) -> Settings {
        let mut settings = Settings::default();
        for (key, field) in Key::all().filter_map(|key| Some((key, key.field?))) {
            self.find(key.name, |text| field.set(&mut settings, text));
        }
        let workers = self.find("workers", workers);
        settings.workers = workers.unwrap_or_else(default_workers);
        let live = Arc::make_mut(&mut settings.live);
        live.buffer_bytes = buffer_bytes;
        live.hosts = AllowedHosts::new(self.list("host", host));
        live.cors_origins = self.list("cors-origin", origin);
        self.check_proxy_protocol(live.proxy_protocol, &policy);
        live.policy = Arc::new(policy);
        settings
    }

    /// Returns the tokens of `control-token` and of `control-tokens`.
    fn tokens(&mut self) -> Tokens {
        let single = self.single_token().unwrap_or_default();
        let several = self.find("control-tokens", |path| {
            let text = read_private_text(Path::new(path))?;
            let tokens = Tokens::parse(&text);
            tokens.map_err(|wrong| format!("the file {path}: {wrong}"))
        });
        single
            .and(several.unwrap_or_default())
            .unwrap_or_else(|wrong| {
                self.problem(wrong.to_string());
                Tokens::default()
            })
    }

    /// Returns the token, or the content of its file. The source with precedence counts.
    fn single_token(&mut self) -> Option<Tokens> {
        let (plain, file) = (known("control-token"), known("control-token-file"));
        let is_file = match (self.layers.get(plain), self.layers.get(file)) {
            (Some((source, _)), Some((of_file, _))) if source == of_file => {
                self.problem(format!(
                    "{} and {} are both set; one of them is enough",
                    source.name_of(plain),
                    of_file.name_of(file)
                ));
                return None;
            }
            (plain, file) => file.map(|(source, _)| source) > plain.map(|(source, _)| source),
        };
        let single = |text: &str| Tokens::single(text).map_err(|wrong| wrong.to_string());
        if is_file {
            self.find("control-token-file", |path| {
                single(Secret::read_private(Path::new(path))?.reveal())
            })
        } else {
            self.find("control-token", single)
        }
    }

    /// Returns the data directory of the graph: `None` with `memory`, unless a source with higher
    /// precedence names a directory.
    fn data(&mut self) -> Option<PathBuf> {
        let path = self.get("data", directory);
        let source = |name| self.layers.get(known(name)).map(|(source, _)| source);
        let named_later = source("data") > source("memory");
        let memory = self.get("memory", switch);
        (named_later || !memory).then_some(path)
    }
}

#[cfg(test)]
mod tests;
