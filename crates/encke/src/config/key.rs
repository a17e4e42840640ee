//! One setting of `encke serve`: name, default, help, and whether a reload applies it.
//!
//! Flags, environment variables, keys of the file and the printed configuration are derived from
//! it. A setting that is a field of the data path has its field and its parser here too. The
//! meaning of the others belongs to [`Config`](super::Config).

use clap::{Arg, ArgAction};
use server::{LiveSettings, Settings};

use super::fields::{AnyField, Field, Shape};

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
    pub(super) help: &'static str,
}

/// Returns a setting that needs a restart.
pub(super) const fn key(name: &'static str, shape: Shape, default: Otherwise) -> Key {
    Key {
        name,
        shape,
        default,
        effect: Effect::Restart,
        secret: false,
        field: None,
        help: "",
    }
}

/// Returns a setting that a reload changes.
pub(super) const fn live(name: &'static str, shape: Shape, default: Otherwise) -> Key {
    Key {
        effect: Effect::Reload,
        ..key(name, shape, default)
    }
}

/// Returns a setting that is a field of the data path, and needs a restart.
pub(super) const fn start_field<T>(name: &'static str, field: &'static Field<Settings, T>) -> Key {
    Key {
        field: Some(field),
        ..key(name, field.0.shape, Otherwise::OfField)
    }
}

/// Returns a setting that is a field of the data path, and that a reload changes.
pub(super) const fn live_field<T>(
    name: &'static str,
    field: &'static Field<LiveSettings, T>,
) -> Key {
    Key {
        field: Some(field),
        ..live(name, field.0.shape, Otherwise::OfField)
    }
}

impl Key {
    /// Sets the text of its help.
    pub(super) const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    /// Says what applies if it has no value.
    pub(super) const fn unset(self, effect: &'static str) -> Self {
        let default = Otherwise::Unset(effect);
        Self { default, ..self }
    }

    /// Keeps its value from being printed.
    pub(super) const fn secret(self) -> Self {
        Self {
            secret: true,
            ..self
        }
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
    pub(super) fn argument(&self) -> Arg {
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
