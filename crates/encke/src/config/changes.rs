//! Differences between the running configuration and one that was read later.
//!
//! Must never show a value, only names of settings.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::fields::Shape;
use super::keys::{Effect, Key};
use super::layers::{Layers, mixed};

/// Digests of the files that settings name, by the names of the settings, to notice changed files.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct FileDigests(BTreeMap<&'static str, Vec<Option<u64>>>);

impl FileDigests {
    /// Reads the files. A file that cannot be read has no digest.
    pub(crate) fn of(layers: &Layers) -> Self {
        let named = Key::all().filter(|key| matches!(key.shape, Shape::File | Shape::Files));
        let digests = named.filter_map(|key| {
            let (_, paths) = layers.get(key)?;
            Some((key.name, paths.iter().map(|path| digest(path)).collect()))
        });
        Self(digests.collect())
    }

    /// Returns this with the digests of reloadable settings from `newer`.
    pub(crate) fn with_reloadable(&self, newer: &Self) -> Self {
        Self(mixed(&self.0, &newer.0))
    }
}

fn digest(path: &str) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    fs::read(path).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

/// Names of the settings that have changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Settings that a reload changes.
    pub(crate) reloaded: Vec<&'static str>,
    /// Settings that keep their old values until a restart.
    pub(crate) awaiting_restart: Vec<&'static str>,
}

impl Changes {
    /// Compares the settings in force with those that were read now. A setting that names a file
    /// has changed if the content of the file has.
    pub(crate) fn between(
        (running, running_files): (&Layers, &FileDigests),
        (newer, newer_files): (&Layers, &FileDigests),
    ) -> Self {
        let mut changes = Self::default();
        for key in Key::all() {
            let name = key.name;
            let is_same = texts(running, key) == texts(newer, key)
                && running_files.0.get(name) == newer_files.0.get(name);
            if is_same {
                continue;
            }
            match key.effect {
                Effect::Reload => changes.reloaded.push(name),
                Effect::Restart => changes.awaiting_restart.push(name),
            }
        }
        changes
    }
}

/// Returns the effective texts of a setting, so that an explicit default equals an absent setting.
fn texts(layers: &Layers, key: &Key) -> Vec<String> {
    let given = layers.get(key).map(|(_, texts)| texts.to_vec());
    given.unwrap_or_else(|| key.default_text().into_iter().collect())
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            reloaded,
            awaiting_restart,
        } = self;
        match (reloaded.is_empty(), awaiting_restart.is_empty()) {
            (true, true) => f.write_str("nothing has changed"),
            (false, true) => write!(f, "changed: {}", reloaded.join(", ")),
            (true, false) => write!(
                f,
                "nothing was changed; a restart is needed for: {}",
                awaiting_restart.join(", ")
            ),
            (false, false) => write!(
                f,
                "changed: {}; a restart is needed for: {}",
                reloaded.join(", "),
                awaiting_restart.join(", ")
            ),
        }
    }
}
