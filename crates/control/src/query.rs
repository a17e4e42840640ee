//! What the path and the query of a request say.
//!
//! Owns their decoding and its error sentences. Must never know what a route does with them.

use std::borrow::Cow;

use axum::http::Uri;
use graph::Id;
use wire::percent::{Plus, decode};

use crate::problem::Problem;

/// Returns the id in a segment of the path, counted from zero behind the leading slash.
pub(crate) fn id_at(uri: &Uri, segment: usize) -> Result<Id, Problem> {
    let text = uri.path().split('/').nth(segment + 1).unwrap_or_default();
    let what = || format!("path segment {text:?}");
    let text = decode(text, Plus::Literal).map_err(|error| Problem::bad(&what(), error))?;
    Id::parse(&text).map_err(|error| Problem::bad(&what(), error))
}

/// The decoded parameters of a query. Lives as long as its request.
#[derive(Debug)]
pub(crate) struct Query<'a>(Vec<(&'static str, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Reads the query of a request that takes these parameters, each at most once. Another one is
    /// an error, as a misspelt parameter would otherwise be ignored in silence.
    pub(crate) fn parse(uri: &'a Uri, known: &[&'static str]) -> Result<Self, Problem> {
        let mut found: Vec<(&'static str, Cow<'a, str>)> = Vec::new();
        for pair in uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(&name) = known.iter().find(|known| **known == name) else {
                let takes = match known {
                    [] => "the path has no parameters".into(),
                    _ => format!("its parameters are {}", known.join(", ")),
                };
                return Err(Problem::bad(
                    "query",
                    format!("{name:?} is not a parameter of this path; {takes}"),
                ));
            };
            if found.iter().any(|(other, _)| *other == name) {
                return Err(Problem::bad(
                    "query",
                    format!("{name:?} occurs twice; send it once"),
                ));
            }
            let what = || format!("query parameter {name:?}");
            let value = decode(value, Plus::Space).map_err(|e| Problem::bad(&what(), e))?;
            found.push((name, value));
        }
        Ok(Self(found))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| &**value)
    }

    /// A parameter that has to be one of a few words.
    pub(crate) fn word<T: Copy>(
        &self,
        name: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Problem> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        match words.iter().find(|(word, _)| *word == value) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => {
                let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                Err(Problem::bad(
                    &format!("query parameter {name:?}"),
                    format!("found {value:?}; expected {}", words.join(" or ")),
                ))
            }
        }
    }

    /// A parameter that has to be a number from 1 to `max`.
    pub(crate) fn count(&self, name: &str, default: usize, max: usize) -> Result<usize, Problem> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        match text.parse() {
            Ok(count) if (1..=max).contains(&count) => Ok(count),
            _ => Err(Problem::bad(
                &format!("query parameter {name:?}"),
                format!("found {text:?}; expected a number from 1 to {max}"),
            )),
        }
    }
}
