//! The sources of the configuration, which a reload reads again.
//!
//! The file may have changed in between. The flags and the environment of a process do not change.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use clap::ArgMatches;

use super::layers::{Layer, Layers, Source};

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
