//! The configuration of `encke serve`: file below environment below flags.
//!
//! Owns what each value means and which of them go together. All that is wrong is found in one
//! pass, so that it can be put right in one.

mod node;
mod keys;
mod layers;
mod sources;
mod changes;
mod listeners;
mod tls;
mod identity;
mod files;
mod print;
mod secret;
mod values;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::tls::TicketKeys;
use auth::Policy;
use clap::Command;
use control::{JwksUrl, Tokens};
use server::{AllowedHosts, LiveSettings, Settings};
use tracing_subscriber::filter::LevelFilter;

use crate::units;
pub(crate) use changes::{Changes, FileDigests};
use keys::{Key, Otherwise};
pub(crate) use layers::Layers;
pub(crate) use listeners::{Addresses, check_control};
pub(crate) use print::print;
pub(crate) use secret::Secret;
use secret::read_private_text;
pub(crate) use sources::Sources;
pub(crate) use tls::{Tls, now as unix_time};
pub(crate) use values::{LogFormat, TIME_MAX, TIMEOUT_MIN, USER_TIMEOUT, address};
use values::{
    count, default_workers, directory, event_bytes, heartbeat, host, log_format, log_level, origin,
    switch, time, timeout, user_timeout, workers,
};

/// Configuration of the server. Built once at start.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) addresses: Addresses,
    pub(crate) allow_anonymous: bool,
    /// Another address for metrics and health alone.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Whether the control listener and that of metrics speak TLS.
    pub(crate) control_tls: bool,
    /// The tokens of the control API. Without any, programs on this machine need none.
    pub(crate) tokens: Tokens,
    /// Certificates of TLS listeners.
    pub(crate) tls: Option<Tls>,
    /// Whether the page may publish, where only this machine reaches both listeners.
    pub(crate) demo: bool,
    /// Data directory of the graph; `None` keeps it in memory only.
    pub(crate) data: Option<PathBuf>,
    pub(crate) event_bytes: usize,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: LevelFilter,
    pub(crate) ports_file: Option<PathBuf>,
    pub(crate) erlang: Option<erlang::Settings>,
    /// Addresses of sets of keys that tokens are checked with.
    pub(crate) jwks_urls: Vec<JwksUrl>,
    /// Those of the data path. Whether there is a demo page is known only when the listeners are.
    pub(crate) settings: Settings,
}

impl Config {
    /// Settings that a reload can change, with those of TLS listeners.
    ///
    /// # Errors
    ///
    /// A sentence, when the cryptographic library fails.
    pub(crate) fn live_settings(&self, tickets: &TicketKeys) -> Result<LiveSettings, String> {
        let tls = self.tls.as_ref().map(|tls| tls.server_config(tickets));
        Ok(LiveSettings {
            tls: tls.transpose()?,
            ..LiveSettings::clone(&self.settings.live)
        })
    }
}

/// The flags of `encke serve` that are settings.
pub(crate) fn add_flags(command: Command) -> Command {
    keys::add_flags(command)
}

/// Parses the collected settings.
///
/// # Errors
///
/// A sentence for each problem, those in `problems` first.
pub(crate) fn resolve(layers: &Layers, problems: Vec<String>) -> Result<Config, Vec<String>> {
    let mut reader = Reader { layers, problems };
    let config = reader.config();
    match reader.problems {
        problems if problems.is_empty() => Ok(config),
        problems => Err(problems),
    }
}

/// Reader of settings that collects problems.
struct Reader<'a> {
    layers: &'a Layers,
    problems: Vec<String>,
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
        let mut settings = self.settings(identity.policy);
        settings.external_workers = u16::from(erlang.is_some());
        let config = Config {
            addresses,
            allow_anonymous,
            metrics_listen: self.find("metrics-listen", address),
            control_tls: self.get("control-tls", switch),
            tokens,
            tls,
            demo: self.get("demo", switch),
            data,
            event_bytes,
            log_format: self.get("log-format", log_format),
            log_level: self.get("log-level", log_level),
            erlang,
            ports_file: self.find("ports-file", |text| Ok(PathBuf::from(text))),
            jwks_urls: identity.jwks_urls,
            settings,
        };
        if let Err(problems) = config.addresses.check(&config) {
            self.problems.extend(problems);
        }
        if config.demo && !config.settings.live.page {
            self.problems.push(
                "--demo lets the page at / publish, and --page=false switches that page off; \
                 remove one of them"
                    .to_owned(),
            );
        }
        if config.demo && config.control_tls {
            self.problems.push(
                "--demo lets the page at / use the control listener without TLS, and --control-tls \
                 serves that listener over TLS; remove one of them"
                    .to_owned(),
            );
        }
        config
    }

    fn settings(&mut self, policy: Policy) -> Settings {
        Settings {
            workers: self
                .find("workers", workers)
                .unwrap_or_else(default_workers),
            private_fds: self.get("private-fds", switch),
            external_workers: 0,
            user_timeout: self.get("user-timeout", user_timeout),
            demo: false,
            live: Arc::new(self.live_settings(policy)),
        }
    }

    /// Settings that a reload can change.
    fn live_settings(&mut self, policy: Policy) -> LiveSettings {
        LiveSettings {
            max_connections: self.find("max-connections", count).unwrap_or(usize::MAX),
            max_connections_per_address: self.find("max-connections-per-address", count),
            head_timeout: self.get("head-timeout", timeout),
            heartbeat: self.get("heartbeat", heartbeat),
            retry: self.get("retry", time),
            backlog_bytes: self.get("backlog-bytes", units::size),
            stall_timeout: self.get("stall-timeout", timeout),
            drain_timeout: self.get("drain-timeout", time),
            drain_spread: self.get("drain-spread", time),
            hosts: AllowedHosts::new(self.list("host", host)),
            policy: Arc::new(policy),
            cors_origins: self.list("cors-origin", origin),
            page: self.get("page", switch),
            tls: None,
        }
    }

    /// A setting that has a default.
    fn get<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        let default = match known(name).default {
            Otherwise::Is(text) => text,
            _ => unreachable!("{name} has no default text"),
        };
        let found = self.find(name, &parse);
        found.unwrap_or_else(|| parse(default).expect("a default is well-formed"))
    }

    /// A setting that may be absent. An invalid value is noted and counts as absent.
    fn find<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let key = known(name);
        let (source, texts) = self.layers.get(key)?;
        let text = texts.last()?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(needed) => {
                let name = source.name_of(key);
                let shown = if key.secret {
                    "not valid"
                } else {
                    &format!("`{text}`")
                };
                self.problems.push(format!("{name} is {shown}: {needed}"));
                None
            }
        }
    }

    /// The values of a list. Each invalid one is noted and left out.
    fn list<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let key = known(name);
        let Some((source, texts)) = self.layers.get(key) else {
            return match key.default {
                Otherwise::Is(text) => vec![parse(text).expect("a default is well-formed")],
                Otherwise::Found(_) | Otherwise::Unset(_) => Vec::new(),
            };
        };
        let mut values = Vec::new();
        for text in texts {
            match parse(text) {
                Ok(value) => values.push(value),
                Err(needed) => self
                    .problems
                    .push(format!("{} has `{text}`: {needed}", source.name_of(key))),
            }
        }
        values
    }

    /// The tokens: that of `control-token`, and those of `control-tokens`.
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
                self.problems.push(wrong.to_string());
                Tokens::default()
            })
    }

    /// The token or the content of its file, from the source that comes later.
    fn single_token(&mut self) -> Option<Tokens> {
        let (plain, file) = (known("control-token"), known("control-token-file"));
        let is_file = match (self.layers.get(plain), self.layers.get(file)) {
            (Some((source, _)), Some((of_file, _))) if source == of_file => {
                self.problems.push(format!(
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

    /// Data directory of the graph: none with `memory`, unless a later source names one.
    fn data(&mut self) -> Option<PathBuf> {
        let path = self.get("data", directory);
        let source = |name| self.layers.get(known(name)).map(|(source, _)| source);
        let named_later = source("data") > source("memory");
        let memory = self.get("memory", switch);
        (named_later || !memory).then_some(path)
    }
}

fn known(name: &str) -> &'static Key {
    Key::find(name).expect("only names from the table are asked for")
}

#[cfg(test)]
mod tests;
