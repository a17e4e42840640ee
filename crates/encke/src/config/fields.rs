//! Fields of the settings of the data path: how a value is written, and where it goes.
//!
//! Their defaults are those of the crate `server`, and are written nowhere else.

use std::sync::Arc;

use server::{LiveSettings, Settings};

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

/// How the values of a type are written.
pub(super) struct Unit<T> {
    pub(super) shape: Shape,
    /// Parses a value. The error says what is needed.
    pub(super) parse: fn(&str) -> Result<T, String>,
    /// Returns the text of a value.
    pub(super) show: fn(&T) -> String,
}

/// Field of `S` that a setting sets, and the unit of its value.
pub(super) struct Field<S, T>(pub(super) Unit<T>, pub(super) fn(&mut S) -> &mut T);

/// Field of any type.
pub(crate) trait AnyField {
    /// Parses a value and sets the field. The error says what is needed.
    fn set(&self, settings: &mut Settings, text: &str) -> Result<(), String>;

    /// Returns the text of the default.
    fn default(&self) -> String;
}

/// A part of the settings that has fields.
pub(super) trait Part {
    fn of(settings: &mut Settings) -> &mut Self;
}

impl Part for Settings {
    fn of(settings: &mut Settings) -> &mut Self {
        settings
    }
}

impl Part for LiveSettings {
    fn of(settings: &mut Settings) -> &mut Self {
        Arc::make_mut(&mut settings.live)
    }
}

impl<S: Part, T> AnyField for Field<S, T> {
    fn set(&self, settings: &mut Settings, text: &str) -> Result<(), String> {
        let Self(unit, field) = self;
        *field(S::of(settings)) = (unit.parse)(text)?;
        Ok(())
    }

    fn default(&self) -> String {
        let Self(unit, field) = self;
        let mut settings = Settings::default();
        (unit.show)(field(S::of(&mut settings)))
    }
}
