//! Reader of settings, which collects problems.

use super::keys::Key;
use super::layers::Layers;

/// Parser of settings that collects problems.
pub(super) struct Reader<'a> {
    pub(super) layers: &'a Layers,
    pub(super) problems: Vec<String>,
}

impl Reader<'_> {
    /// Notes a problem: a sentence for the operator.
    pub(super) fn problem(&mut self, sentence: impl Into<String>) {
        self.problems.push(sentence.into());
    }

    /// Parses a setting that has a default.
    pub(super) fn get<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        let found = self.find(name, &parse);
        found.unwrap_or_else(|| {
            let default = known(name).default_text().expect("it has a default");
            parse(&default).expect("a default is well-formed")
        })
    }

    /// Parses a setting that may be absent. An invalid value is noted and counts as absent.
    pub(super) fn find<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let key = known(name);
        let (source, texts) = self.layers.get(key)?;
        let text = texts.last()?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(needed) => {
                let name = source.name_of(key);
                let shown = if key.secret {
                    "not valid"
                } else {
                    &format!("`{text}`")
                };
                self.problem(format!("{name} is {shown}: {needed}"));
                None
            }
        }
    }

    /// Parses the values of a list. Invalid ones are noted and left out.
    pub(super) fn list<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let key = known(name);
        let Some((source, texts)) = self.layers.get(key) else {
            let default = key.default_text();
            let default = default.map(|text| parse(&text).expect("a default is well-formed"));
            return Vec::from_iter(default);
        };
        let mut values = Vec::new();
        for text in texts {
            match parse(text) {
                Ok(value) => values.push(value),
                Err(needed) => {
                    self.problem(format!("{} has `{text}`: {needed}", source.name_of(key)))
                }
            }
        }
        values
    }
}

/// Returns the setting with this name, which is in the table.
pub(super) fn known(name: &str) -> &'static Key {
    Key::find(name).expect("only names from the table are asked for")
}
