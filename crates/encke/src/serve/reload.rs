//! Reload: the configuration is read again, checked as a whole, and applied as far as no stream is
//! touched.
//!
//! Must never apply a part of a configuration that is not valid, and never log a value.

use tracing_subscriber::filter::LevelFilter;

use crate::config::{self, Changes, Config, FileDigests, Layers, Sources};

use super::logs::LogLevel;

/// The settings that are in force.
#[derive(Debug)]
pub(super) struct InForce {
    layers: Layers,
    files: FileDigests,
    log_level: LevelFilter,
}

impl InForce {
    pub(super) fn new(layers: Layers, config: &Config) -> Self {
        Self {
            files: FileDigests::of(&layers),
            layers,
            log_level: config.log_level,
        }
    }
}

/// What a reload reads, and what it applies the settings to.
pub(super) struct Reloader {
    pub(super) sources: Sources,
    pub(super) running: InForce,
    pub(super) log_level: LogLevel,
    pub(super) server: server::Handle,
}

/// A configuration that was read again and may be applied.
struct Newer {
    config: Config,
    layers: Layers,
    files: FileDigests,
    changes: Changes,
}

impl Reloader {
    /// Reads the configuration again and applies it, or logs why nothing was changed.
    pub(super) fn reload(&mut self) {
        match self.read() {
            Ok(newer) => self.apply(newer),
            Err(problems) => {
                let problems = problems.join("; ");
                tracing::error!("the reload failed and changed nothing: {problems}");
            }
        }
    }

    fn read(&self) -> Result<Newer, Vec<String>> {
        let (layers, problems) = self.sources.read();
        config::resolve(&layers, problems)?;
        let files = FileDigests::of(&layers);
        let running = &self.running;
        let changes = Changes::between((&running.layers, &running.files), (&layers, &files));
        // What is applied must be valid together with what stays: the two may come from files that
        // were never meant for each other.
        let layers = running.layers.with_reloadable(&layers);
        let config = config::resolve(&layers, Vec::new()).map_err(|problems| {
            let until_restart = |problem| {
                format!("{problem} (with the settings that change only by a restart as they are)")
            };
            problems.into_iter().map(until_restart).collect::<Vec<_>>()
        })?;
        let files = running.files.with_reloadable(&files);
        Ok(Newer {
            config,
            layers,
            files,
            changes,
        })
    }

    fn apply(&mut self, newer: Newer) {
        let Newer {
            config,
            layers,
            files,
            changes,
        } = newer;
        let live = &config.settings.live;
        self.server.reload(|_| server::LiveSettings::clone(live));
        let (before, after) = (self.running.log_level, config.log_level);
        // The report is logged if either level lets it through.
        self.log_level.set(before.max(after));
        tracing::info!("the configuration was reloaded; {changes}");
        self.log_level.set(after);
        self.running = InForce {
            layers,
            files,
            log_level: after,
        };
    }
}
