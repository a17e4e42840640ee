//! Secrets, which are read from files or settings and never shown.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::files::read_private;

/// A control token. Its `Debug` form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Parses a token.
    ///
    /// # Errors
    ///
    /// When the text cannot be a token. The error is a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("it is empty; a token needs at least one character".to_owned());
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "a token may contain only ASCII letters, digits and punctuation, and no spaces"
                    .to_owned(),
            );
        }
        Ok(Self(text.to_owned()))
    }

    /// Reads a token from a file, without the white space around it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or has no token. The error is a sentence.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("the file {} cannot be read: {error}", path.display()))?;
        Self::of_file(path, &text)
    }

    /// Reads a token of this server from a file, which must be private.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is not private or has no token. The error is a sentence.
    pub fn read_private(path: &Path) -> Result<Self, String> {
        Self::of_file(path, &read_private_text(path)?)
    }

    fn of_file(path: &Path, text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err(format!(
                "the file {} is empty; write the token into it",
                path.display()
            ));
        }
        Self::parse(text.trim()).map_err(|wrong| format!("the file {}: {wrong}", path.display()))
    }

    /// Returns the token itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Reads the text of a private file.
///
/// # Errors
///
/// When it cannot be read, is not private, or is not UTF-8. The error is a sentence with the path.
pub fn read_private_text(path: &Path) -> Result<String, String> {
    String::from_utf8(read_private(path)?)
        .map_err(|_| format!("the file {} is not UTF-8", path.display()))
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
