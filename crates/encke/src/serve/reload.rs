//! Reload: reads the configuration again, checks it as a whole, and applies the settings that can
//! change without closing a stream.
//!
//! Must never apply a part of an invalid configuration, and never log a value.

use std::sync::Arc;
use std::time::Duration;

use cli::logs::LogLevel;
use server::LiveSettings;
use tls::TicketKeys;
use tracing_subscriber::filter::LevelFilter;
use webhook::Webhook;

use super::key_sets::{KeySets, keep_fetched};
use crate::config::{self, Addresses, Changes, Config, FileDigests, Layers, Sources};

/// Time to wait until all workers use new settings. A turn takes milliseconds.
const WORKERS_WAIT: Duration = Duration::from_secs(5);

/// The configuration in force, and its sources.
#[derive(Debug)]
pub(super) struct Loaded {
    sources: Sources,
    layers: Layers,
    files: FileDigests,
    log: LogLevel,
    log_level: LevelFilter,
    /// Warnings about the configuration that were logged.
    warnings: Vec<String>,
}

impl Loaded {
    pub(super) fn new(sources: Sources, layers: Layers, log: LogLevel, config: &Config) -> Self {
        Self {
            sources,
            files: FileDigests::of(&layers),
            layers,
            log,
            log_level: config.log_level,
            warnings: config.addresses.warnings(config),
        }
    }
}

/// The configuration in force, and the parts of the server to which a reload applies settings.
pub(super) struct Reloader {
    pub(super) loaded: Loaded,
    /// Keys of TLS session tickets, which a reload keeps.
    pub(super) tickets: TicketKeys,
    pub(super) key_sets: KeySets,
    pub(super) server: server::Handle,
    pub(super) tokens: control::LiveTokens,
    /// TLS of the control listener, if it has it.
    pub(super) control_tls: Option<control::LiveTls>,
    /// The webhook, whose secrets a reload replaces.
    pub(super) webhook: Option<Arc<Webhook>>,
    /// Addresses of the listeners, which a reload does not change.
    pub(super) addresses: Addresses,
}

/// A valid configuration that can be applied.
struct Newer {
    config: Config,
    live: LiveSettings,
    layers: Layers,
    files: FileDigests,
    changes: Changes,
}

impl Reloader {
    /// Reads the configuration again and applies it. If it is invalid, logs why and changes
    /// nothing.
    pub(super) fn reload(&mut self) {
        if let Err(problems) = self.read().and_then(|newer| self.apply(newer)) {
            let problems = problems.join("; ");
            tracing::error!("the reload failed and changed nothing: {problems}");
        }
    }

    fn read(&self) -> Result<Newer, Vec<String>> {
        let running = &self.loaded;
        let (layers, problems) = running.sources.read();
        config::resolve(&layers, problems)?;
        let files = FileDigests::of(&layers);
        let changes = Changes::between((&running.layers, &running.files), (&layers, &files));
        // The new values must be valid together with the settings that need a restart, which keep
        // their old values.
        let layers = running.layers.with_reloadable(&layers);
        let checked = config::resolve(&layers, Vec::new()).and_then(|config| {
            self.addresses.check(&config)?;
            Ok(config)
        });
        let config = checked.map_err(|problems| {
            let until_restart = |problem| {
                format!("{problem} (with the settings that change only by a restart as they are)")
            };
            problems.into_iter().map(until_restart).collect::<Vec<_>>()
        })?;
        let files = running.files.with_reloadable(&files);
        let live = config.live_settings(&self.tickets);
        Ok(Newer {
            live: live.map_err(|problem| vec![problem])?,
            config,
            layers,
            files,
            changes,
        })
    }

    fn apply(&mut self, newer: Newer) -> Result<(), Vec<String>> {
        let Newer {
            config,
            mut live,
            layers,
            files,
            changes,
        } = newer;
        let (after, jwks_urls) = (config.log_level, &config.jwks_urls);
        let warnings = self.addresses.warnings(&config);
        // First, because it can fail and what follows cannot.
        let replaced = self.tokens.replace(config.tokens.clone());
        replaced.map_err(|error| vec![error.to_string()])?;
        if let Some((control, newer)) = self.control_tls.as_ref().zip(live.tls.as_ref()) {
            control.replace(newer);
        }
        if let Some((webhook, newer)) = self.webhook.as_ref().zip(config.webhook.as_ref()) {
            webhook.reload(&newer.settings.secrets);
        }
        let pending = self.server.reload(|running| {
            keep_fetched(&running.policy, &mut live, jwks_urls);
            live
        });
        // Only then is it true that the reload is complete.
        if !pending.wait(WORKERS_WAIT) {
            tracing::warn!("a worker is too busy to take the new settings at once; it will");
        }
        self.key_sets.set_urls(jwks_urls);
        let loaded = &mut self.loaded;
        let before = loaded.log_level;
        // The report is logged if either the old or the new level permits it.
        loaded.log.set(before.max(after));
        tracing::info!("the configuration was reloaded; {changes}");
        loaded.log.set(after);
        for warning in &warnings {
            if !loaded.warnings.contains(warning) {
                tracing::warn!("{warning}");
            }
        }
        loaded.warnings = warnings;
        loaded.log_level = after;
        loaded.layers = layers;
        loaded.files = files;
        Ok(())
    }
}
