//! Sources of values: the file, the environment, the flags. Later ones have precedence.
//!
//! A reload reads them again: the file may have changed in between, the flags and the environment
//! of a process do not. Owns the check that names are known. Must never interpret a value.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use toml::Value;

use super::fields::Shape;
use super::keys::{Effect, Key, nearest};

/// Prefix of Encke's environment variables.
const PREFIX: &str = "ENCKE_";

/// Encke's variables that are not settings of the server.
const OTHER_VARIABLES: [&str; 2] = ["ENCKE_CONFIG", "ENCKE_URL"];

/// Source of a value. Later variants have precedence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    File(PathBuf),
    Environment,
    Flag,
}

/// Values of one source: the texts of each setting. Only a list has more than one text.
#[derive(Debug, Default)]
pub(crate) struct Layer(BTreeMap<&'static str, Vec<String>>);

/// Values of all sources together, each with the source that it is from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers(BTreeMap<&'static str, (Source, Vec<String>)>);

impl Source {
    /// Returns the name of `key` in this source, for error texts.
    pub(crate) fn name_of(&self, key: &Key) -> String {
        match self {
            Self::File(path) => format!("`{}` in {}", key.name, path.display()),
            Self::Environment => key.variable(),
            Self::Flag => format!("--{}", key.name),
        }
    }
}

impl Layers {
    /// Adds the values of `layer`, which have precedence over those that are there.
    pub(crate) fn lay(&mut self, source: &Source, layer: Layer) {
        for (name, texts) in layer.0 {
            self.0.insert(name, (source.clone(), texts));
        }
    }

    /// Returns this with the reloadable settings from `newer`.
    pub(crate) fn with_reloadable(&self, newer: &Self) -> Self {
        Self(mixed(&self.0, &newer.0))
    }

    /// Adds the values of `above`, which have precedence over those that are there.
    #[cfg(test)]
    pub(super) fn lay_all(&mut self, above: Self) {
        self.0.extend(above.0);
    }

    /// Returns the texts of a setting, and their source.
    pub(crate) fn get(&self, key: &Key) -> Option<(&Source, &[String])> {
        self.0
            .get(key.name)
            .map(|(source, texts)| (source, texts.as_slice()))
    }
}

impl Layer {
    /// Returns the values of the flags.
    pub(crate) fn of_flags(matches: &ArgMatches) -> Self {
        let given = Key::all().filter_map(|key| {
            // Not every command has all settings as flags.
            let texts = matches.try_get_many::<String>(key.name).ok()??;
            Some((key.name, texts.cloned().collect()))
        });
        Self(given.collect())
    }

    /// Returns the values of variables that begin with `ENCKE_`. Appends a sentence to `problems`
    /// for each that is unknown.
    pub(crate) fn of_environment(
        variables: impl Iterator<Item = (OsString, OsString)>,
        problems: &mut Vec<String>,
    ) -> Self {
        let mut layer = Self::default();
        let names: Vec<String> = Key::all().map(Key::variable).collect();
        for (name, value) in variables {
            let name = name.to_string_lossy();
            if !name.starts_with(PREFIX)
                || OTHER_VARIABLES.contains(&&*name)
                || is_of_an_orchestrator(&name)
            {
                continue;
            }
            let Some(key) = Key::all().find(|key| key.variable() == name) else {
                let known = names.iter().map(String::as_str).chain(OTHER_VARIABLES);
                let hint = hint(nearest(&name, known), "see `encke serve --help`");
                problems.push(format!(
                    "the environment variable {name} is unknown; {hint}"
                ));
                continue;
            };
            let Some(value) = value.to_str() else {
                problems.push(format!("{name} is not UTF-8"));
                continue;
            };
            let texts = match key.shape {
                Shape::List(_) | Shape::Files => value
                    .split(',')
                    .map(|text| text.trim().to_owned())
                    .filter(|text| !text.is_empty())
                    .collect(),
                _ => vec![value.to_owned()],
            };
            layer.0.insert(key.name, texts);
        }
        layer
    }

    /// Returns the values in `text`, the content of the file. Appends a sentence to `problems` for
    /// each key that is unknown or whose value has the wrong type.
    pub(crate) fn of_file(path: &Path, text: &str, problems: &mut Vec<String>) -> Self {
        let mut layer = Self::default();
        let shown = path.display();
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                problems.push(format!(
                    "{shown} is not valid TOML: {}",
                    error.to_string().trim_end()
                ));
                return layer;
            }
        };
        for (name, value) in table {
            let Some(key) = Key::find(&name) else {
                let known = Key::all().map(|key| key.name);
                let hint = hint(nearest(&name, known), "see `encke serve --print-config`");
                problems.push(format!("`{name}` in {shown} is not a setting; {hint}"));
                continue;
            };
            match texts(key, value) {
                Ok(texts) => {
                    layer.0.insert(key.name, texts);
                }
                Err(needed) => problems.push(format!("`{name}` in {shown} must be {needed}")),
            }
        }
        layer
    }
}

/// The sources of the settings of `encke serve`.
#[derive(Debug)]
pub(crate) struct Sources {
    file: Option<PathBuf>,
    variables: Vec<(OsString, OsString)>,
    flags: ArgMatches,
}

impl Sources {
    pub(crate) fn new(
        file: Option<PathBuf>,
        variables: impl Iterator<Item = (OsString, OsString)>,
        flags: ArgMatches,
    ) -> Self {
        Self {
            file,
            variables: variables.collect(),
            flags,
        }
    }

    /// Reads all settings. Also returns a sentence for each problem.
    pub(crate) fn read(&self) -> (Layers, Vec<String>) {
        let mut problems = Vec::new();
        let mut layers = Layers::default();
        if let Some(path) = &self.file {
            match fs::read_to_string(path) {
                Ok(text) => {
                    let layer = Layer::of_file(path, &text, &mut problems);
                    layers.lay(&Source::File(path.clone()), layer);
                }
                Err(error) => problems.push(format!(
                    "the configuration file {} cannot be read: {error}",
                    path.display()
                )),
            }
        }
        let environment = Layer::of_environment(self.variables.iter().cloned(), &mut problems);
        layers.lay(&Source::Environment, environment);
        layers.lay(&Source::Flag, Layer::of_flags(&self.flags));
        (layers, problems)
    }
}

fn hint(nearest: Option<&str>, otherwise: &str) -> String {
    nearest.map_or_else(
        || otherwise.to_owned(),
        |name| format!("did you mean {name}?"),
    )
}

/// Returns whether a variable is one that Kubernetes and Docker set in containers beside a service
/// called `encke`, such as `ENCKE_SERVICE_HOST`, and so is not a misspelt setting.
fn is_of_an_orchestrator(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    rest == "PORT"
        || ["PORT_", "SERVICE_"]
            .iter()
            .any(|prefix| rest.starts_with(prefix))
}

/// Returns the values of `running` for settings that need a restart, and those of `newer` for the
/// others.
pub(super) fn mixed<V: Clone>(
    running: &BTreeMap<&'static str, V>,
    newer: &BTreeMap<&'static str, V>,
) -> BTreeMap<&'static str, V> {
    let of = |values: &BTreeMap<&'static str, V>, effect| {
        let mut values = values.clone();
        values.retain(|name, _| Key::find(name).is_some_and(|key| key.effect == effect));
        values
    };
    let mut mixed = of(running, Effect::Restart);
    mixed.append(&mut of(newer, Effect::Reload));
    mixed
}

/// Returns a value of the file as texts. The error says what it must be.
fn texts(key: &Key, value: Value) -> Result<Vec<String>, &'static str> {
    match (key.shape, value) {
        (Shape::Switch, Value::Boolean(on)) => Ok(vec![on.to_string()]),
        (Shape::Switch, _) => Err("true or false"),
        (Shape::Number, Value::Integer(number)) => Ok(vec![number.to_string()]),
        (Shape::Number, _) => Err("a whole number"),
        // `heartbeat = 0`, `event-bytes = 65536`
        (Shape::Text(_), Value::Integer(number)) => Ok(vec![number.to_string()]),
        (_, Value::String(text)) => Ok(vec![text]),
        (Shape::List(_) | Shape::Files, Value::Array(items)) => items
            .into_iter()
            .map(|item| match item {
                Value::String(text) => Ok(text),
                _ => Err("an array of strings"),
            })
            .collect(),
        (Shape::List(_) | Shape::Files, _) => Err("an array of strings"),
        (Shape::Text(_) | Shape::Path | Shape::File, _) => Err("a string"),
    }
}
