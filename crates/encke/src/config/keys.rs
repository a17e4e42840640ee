//! All settings of `encke serve`, by their names and as flags.

mod table;

use std::marker::PhantomData;

use clap::{ArgMatches, Args, Command, FromArgMatches};

pub(crate) use super::key::{Effect, Key, Otherwise};
pub(crate) use table::GROUPS;

/// Settings that `encke cluster import` has as flags, in addition to those of the cluster.
const IMPORT: [&str; 1] = ["data"];

/// Settings of a node of a cluster that an import does not need.
const OF_NODES: [&str; 2] = ["node", "cluster-patience"];

/// Flags of a command that are settings, which come from the table.
#[derive(Debug)]
pub(crate) struct Flags<C> {
    pub(crate) matches: ArgMatches,
    command: PhantomData<C>,
}

/// A command that has settings as flags.
pub(crate) trait Configured {
    /// Adds the flags to the command.
    fn add_flags(command: Command) -> Command;
}

/// The flags of `encke serve`: all settings, each under the heading of its group.
#[derive(Debug)]
pub(crate) enum ServeFlags {}

/// The flags of `encke cluster import`.
#[derive(Debug)]
pub(crate) enum ImportFlags {}

impl Configured for ServeFlags {
    fn add_flags(command: Command) -> Command {
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
}

impl Configured for ImportFlags {
    fn add_flags(command: Command) -> Command {
        let other = Key::all().filter(|key| IMPORT.contains(&key.name));
        let of_cluster = GROUPS
            .iter()
            .filter(|group| group.keys.iter().any(|key| key.name == "cluster"))
            .flat_map(|group| group.keys)
            .filter(|key| !OF_NODES.contains(&key.name));
        command.args(other.chain(of_cluster).map(Key::argument))
    }
}

impl<C: Configured> Args for Flags<C> {
    fn augment_args(command: Command) -> Command {
        C::add_flags(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        C::add_flags(command)
    }
}

impl<C> FromArgMatches for Flags<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            matches: matches.clone(),
            command: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.matches = matches.clone();
        Ok(())
    }
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
