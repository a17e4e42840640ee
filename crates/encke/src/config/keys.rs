//! The table of all settings of `encke serve`: name, default, help.
//!
//! Flags, environment variables, keys of the file and the printed configuration are derived from
//! this table. The meaning of values belongs to [`Config`](super::Config).

mod table;

use clap::{Arg, ArgAction, Command};

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
#[derive(Debug)]
pub(crate) struct Key {
    /// Name in the file and, after `--`, on the command line.
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) default: Otherwise,
    pub(crate) effect: Effect,
    /// Whether its value must not be printed.
    pub(crate) secret: bool,
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

    /// Returns its flag.
    fn argument(&self) -> Arg {
        let default = match self.default {
            Otherwise::Is(_) if self.shape == Shape::Switch => String::new(),
            Otherwise::Is(text) | Otherwise::Found(text) => format!(" [default: {text}]"),
            Otherwise::Unset(_) => String::new(),
        };
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

    /// Returns a setting as a row of the table in the documentation.
    fn row(key: &Key) -> String {
        let default = match key.default {
            Otherwise::Is("false") => "off".to_owned(),
            Otherwise::Is(text) => format!("`{text}`"),
            Otherwise::Found(text) | Otherwise::Unset(text) => text.to_owned(),
        };
        let effect = match key.effect {
            Effect::Reload => "reload",
            Effect::Restart => "restart",
        };
        format!("| `{}` | {default} | {effect} | {} |", key.name, key.help)
    }

    #[test]
    fn the_documentation_describes_each_setting_as_the_help_does() {
        let documented = include_str!("../../../../docs/CONFIGURATION.md");
        let (_, documented) = documented
            .split_once("## Settings\n")
            .expect("a section of settings");
        let mut expected = String::new();
        for group in GROUPS {
            expected.push_str(&format!(
                "### {}\n\n| setting | default | changes by | meaning |\n|---|---|---|---|\n",
                group.heading
            ));
            for key in group.keys {
                expected.push_str(&row(key));
                expected.push('\n');
            }
            expected.push('\n');
        }
        let (_, tables) = documented.split_once("\n\n###").expect("tables");
        let tables = format!("###{}", tables.trim_end());
        assert!(
            tables == expected.trim_end(),
            "docs/CONFIGURATION.md must end with these tables:\n\n{expected}"
        );
    }
}
