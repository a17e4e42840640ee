//! The table of all settings of `encke serve`: name, default, help, and whether a reload applies it.
//!
//! Flags, environment variables, keys of the file and the printed configuration are derived from
//! this table. A setting that is a field of the data path has its parser and its field there too.
//! The meaning of the others belongs to [`Config`](super::Config).

mod table;

use clap::{Arg, ArgAction, Command};
use server::{LiveSettings, Settings};

use super::fields::{AnyField, Field};

pub(crate) use table::GROUPS;

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// On or off.
    Switch,
    /// A whole number.
    Number,
    /// Any text. The string is its placeholder in the help.
    Text(&'static str),
    /// A path. A relative one is relative to the working directory of the server.
    Path,
    /// The path of a file that is read with the configuration.
    File,
    /// Paths of files that are read with the configuration.
    Files,
    /// Several texts. A repeated flag adds one. In the environment they are separated by commas.
    List(&'static str),
}

/// Default of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    /// This text, as if it were configured.
    Is(&'static str),
    /// That of the field of the data path.
    OfField,
    /// A value that depends on the machine. The string describes it.
    Found(&'static str),
    /// No value. The string describes the effect.
    Unset(&'static str),
}

/// How a change of a setting takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// After a reload, which closes no stream.
    Reload,
    /// After a restart.
    Restart,
}

/// One setting.
pub(crate) struct Key {
    /// Name in the file and, after `--`, on the command line.
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) default: Otherwise,
    pub(crate) effect: Effect,
    /// Whether its value must not be printed.
    pub(crate) secret: bool,
    /// Field of the data path that it sets, if it is one.
    pub(super) field: Option<&'static dyn AnyField>,
    help: &'static str,
}

/// Returns a setting that needs a restart.
const fn key(name: &'static str, shape: Shape, default: Otherwise, help: &'static str) -> Key {
    Key {
        name,
        shape,
        default,
        effect: Effect::Restart,
        secret: false,
        field: None,
        help,
    }
}

/// Returns a setting that a reload changes.
const fn live(name: &'static str, shape: Shape, default: Otherwise, help: &'static str) -> Key {
    Key {
        effect: Effect::Reload,
        ..key(name, shape, default, help)
    }
}

/// Returns a setting that is a field of the data path, and needs a restart.
const fn start_field<T>(
    name: &'static str,
    field: &'static Field<Settings, T>,
    help: &'static str,
) -> Key {
    Key {
        field: Some(field),
        ..key(name, field.0.shape, Otherwise::OfField, help)
    }
}

/// Returns a setting that is a field of the data path, and that a reload changes.
const fn live_field<T>(
    name: &'static str,
    field: &'static Field<LiveSettings, T>,
    help: &'static str,
) -> Key {
    Key {
        field: Some(field),
        ..live(name, field.0.shape, Otherwise::OfField, help)
    }
}

/// Settings that `encke cluster import` has as flags, in addition to those of the cluster.
const IMPORT: [&str; 1] = ["data"];

/// Settings of a node of a cluster that an import does not need.
const OF_NODES: [&str; 2] = ["node", "cluster-patience"];

/// Adds the flags of `encke cluster import` that are settings.
pub(super) fn add_import_flags(command: Command) -> Command {
    let other = Key::all().filter(|key| IMPORT.contains(&key.name));
    let of_cluster = GROUPS
        .iter()
        .filter(|group| group.keys.iter().any(|key| key.name == "cluster"))
        .flat_map(|group| group.keys)
        .filter(|key| !OF_NODES.contains(&key.name));
    command.args(other.chain(of_cluster).map(Key::argument))
}

/// Adds the flags of all settings, each under the heading of its group.
pub(super) fn add_flags(command: Command) -> Command {
    let add = |command: Command, group: &table::Group| {
        command
            .next_help_heading(group.heading)
            .args(group.keys.iter().map(Key::argument))
    };
    GROUPS
        .iter()
        .fold(command, add)
        .next_help_heading(None::<&str>)
}

impl Key {
    /// Returns all settings.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        GROUPS.iter().flat_map(|group| group.keys)
    }

    /// Returns the setting with this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        Self::all().find(|key| key.name == name)
    }

    /// Returns the name of its environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("ENCKE_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }

    /// Returns the default as it would be configured; `None` if it has no such text.
    pub(crate) fn default_text(&self) -> Option<String> {
        match self.default {
            Otherwise::Is(text) => Some(text.to_owned()),
            Otherwise::OfField => self.field.map(AnyField::default),
            Otherwise::Found(_) | Otherwise::Unset(_) => None,
        }
    }

    /// Returns its flag.
    fn argument(&self) -> Arg {
        let default = match (self.default, self.default_text()) {
            (Otherwise::Found(what), _) => Some(what.to_owned()),
            (_, text) => text.filter(|_| self.shape != Shape::Switch),
        };
        let default = default.map_or_else(String::new, |text| format!(" [default: {text}]"));
        let argument = Arg::new(self.name)
            .long(self.name)
            .help(format!("{}{default}", self.help));
        // If a flag is repeated, the last one counts, so that scripts can append flags.
        let single = argument.clone().overrides_with(self.name);
        match self.shape {
            // `--private-fds=false` overrides the file.
            Shape::Switch => single
                .value_name("BOOL")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            Shape::Number => single.value_name("N"),
            Shape::Text(name) => single.value_name(name),
            Shape::Path | Shape::File => single.value_name("FILE"),
            Shape::Files => argument.value_name("FILE").action(ArgAction::Append),
            Shape::List(name) => argument.value_name(name).action(ArgAction::Append),
        }
    }
}

/// Returns the one of `names` that a misspelt name most likely means.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_ascii_lowercase().replace('_', "-");
    names
        .map(|name| {
            let spelt = name.to_ascii_lowercase().replace('_', "-");
            (strsim::levenshtein(&wrong, &spelt), name)
        })
        .min()
        // At more than a third of the word it is another word.
        .filter(|&(distance, name)| distance <= name.len().div_ceil(3))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_the_nearest_one() {
        let names = || Key::all().map(|key| key.name);
        assert_eq!(nearest("hartbeat", names()), Some("heartbeat"));
        assert_eq!(nearest("backlog_bytes", names()), Some("backlog-bytes"));
        assert_eq!(nearest("worker", names()), Some("workers"));
        assert_eq!(nearest("zzz", names()), None);
    }

    #[test]
    fn names_and_variables_differ_from_each_other() {
        let mut variables: Vec<_> = Key::all().map(Key::variable).collect();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), Key::all().count());
        assert_eq!(
            Key::find("private-fds").unwrap().variable(),
            "ENCKE_PRIVATE_FDS"
        );
    }

    /// Returns a setting as an item of the list in the documentation.
    fn item(key: &Key) -> String {
        let default = match (key.default, key.default_text()) {
            (Otherwise::Found(text) | Otherwise::Unset(text), _) => text.to_owned(),
            (_, Some(text)) if text == "false" => "off".to_owned(),
            (_, text) => format!("`{}`", text.expect("a default")),
        };
        let effect = match key.effect {
            Effect::Reload => "reload",
            Effect::Restart => "restart",
        };
        format!("- `{}` ({default}; {effect}): {}.", key.name, key.help)
    }

    /// Joins the lines of an item, and removes empty ones.
    fn unwrapped(text: &str) -> String {
        let text = text.replace("\n  ", " ");
        let lines = text.lines().filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_documentation_describes_each_setting_as_the_help_does() {
        let documented = include_str!("../../../../docs/CONFIGURATION.md");
        let (_, documented) = documented
            .split_once("\n## Settings\n")
            .expect("a section of settings");
        let (_, documented) = documented.split_once("\n### ").expect("groups");
        let groups = GROUPS.iter().map(|group| {
            let items: Vec<_> = group.keys.iter().map(item).collect();
            format!("### {}\n{}", group.heading, items.join("\n"))
        });
        let expected = groups.collect::<Vec<_>>().join("\n");
        let expected = wrapped(&expected);
        assert!(
            unwrapped(&format!("### {documented}")) == unwrapped(&expected),
            "docs/CONFIGURATION.md must end with these lists:\n\n{expected}"
        );
    }

    /// Breaks lines for the documentation, whose lines have at most 120 columns.
    fn wrapped(text: &str) -> String {
        let mut out = String::new();
        for line in text.lines() {
            let mut width = 0;
            for word in line.split(' ') {
                let gap = match width {
                    0 => "",
                    _ if width + 1 + word.chars().count() > 120 => "\n  ",
                    _ => " ",
                };
                out.push_str(gap);
                out.push_str(word);
                width = match gap {
                    "\n  " => 2 + word.chars().count(),
                    _ => width + gap.len() + word.chars().count(),
                };
            }
            out.push_str(if line.starts_with('#') { "\n\n" } else { "\n" });
        }
        out.replace("\n### ", "\n\n### ")
    }
}
