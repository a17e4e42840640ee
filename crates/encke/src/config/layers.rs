//! Where values come from: the file, the environment, the flags; each beats those before it.
//!
//! Owns which names are known. Must never read a value's meaning.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use toml::Value;

use super::keys::{Effect, Key, Shape, nearest};

/// Prefix of our environment variables.
const PREFIX: &str = "ENCKE_";

/// Our variables that are not settings of the server.
const OTHER_VARIABLES: [&str; 2] = ["ENCKE_CONFIG", "ENCKE_URL"];

/// Where a value comes from. The later ones win.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    File(PathBuf),
    Environment,
    Flag,
}

/// Values of one source: the texts of each setting. Only a list has more than one.
#[derive(Debug, Default)]
pub(crate) struct Layer(BTreeMap<&'static str, Vec<String>>);

/// All sources together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layers(BTreeMap<&'static str, (Source, Vec<String>)>);

impl Source {
    /// The name of `key` in this source, for a sentence.
    pub(crate) fn name_of(&self, key: &Key) -> String {
        match self {
            Self::File(path) => format!("`{}` in {}", key.name, path.display()),
            Self::Environment => key.variable(),
            Self::Flag => format!("--{}", key.name),
        }
    }
}

impl Layers {
    /// Lays `layer` over what there is.
    pub(crate) fn lay(&mut self, source: &Source, layer: Layer) {
        for (name, texts) in layer.0 {
            self.0.insert(name, (source.clone(), texts));
        }
    }

    /// Takes from `newer` the settings that a reload can change, and keeps all others.
    pub(crate) fn with_reloadable(&self, newer: &Self) -> Self {
        let layers = |layers: &Self, effect| {
            let of_effect = |(name, _): &(&&'static str, _)| {
                Key::find(name).is_some_and(|key| key.effect == effect)
            };
            let chosen = layers.0.iter().filter(of_effect);
            chosen
                .map(|(&name, texts)| (name, texts.clone()))
                .collect::<BTreeMap<_, _>>()
        };
        let mut mixed = layers(self, Effect::Restart);
        mixed.append(&mut layers(newer, Effect::Reload));
        Self(mixed)
    }

    /// Lays all of `above` over what there is.
    #[cfg(test)]
    pub(super) fn lay_all(&mut self, above: Self) {
        self.0.extend(above.0);
    }

    /// The texts of a setting, and their source.
    pub(crate) fn get(&self, key: &Key) -> Option<(&Source, &[String])> {
        self.0
            .get(key.name)
            .map(|(source, texts)| (source, texts.as_slice()))
    }
}

impl Layer {
    /// The flags given.
    pub(crate) fn of_flags(matches: &ArgMatches) -> Self {
        let given = Key::all().filter_map(|key| {
            // Not every command has all of them as flags.
            let texts = matches.try_get_many::<String>(key.name).ok()??;
            Some((key.name, texts.cloned().collect()))
        });
        Self(given.collect())
    }

    /// The variables that begin with `ENCKE_`. Appends a sentence to `problems` for each that is
    /// not known.
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

    /// The file's `text`. Appends a sentence to `problems` for each key that is not known or whose
    /// value is of the wrong type.
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

fn hint(nearest: Option<&str>, otherwise: &str) -> String {
    nearest.map_or_else(
        || otherwise.to_owned(),
        |name| format!("did you mean {name}?"),
    )
}

/// Kubernetes and Docker put such variables into the environment of every container that runs
/// beside a service called `encke`; they are nobody's misspelling.
fn is_of_an_orchestrator(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    rest == "PORT"
        || ["PORT_", "SERVICE_"]
            .iter()
            .any(|prefix| rest.starts_with(prefix))
}

/// A value of the file as texts, or what it has to be.
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
