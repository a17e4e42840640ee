//! JSON objects from untrusted input.

use core::fmt;
use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Most members of an object. Tokens have about twenty.
const MEMBERS_MAX: usize = 128;

/// An object whose values are unparsed JSON. Duplicate names are refused, because parsers disagree
/// about which one counts (RFC 7519, section 4).
#[derive(Debug)]
pub(crate) struct Object<'a> {
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// Reason why a text is not an [`Object`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectError {
    /// Not UTF-8, not JSON, not an object, or one with too many members.
    Malformed,
    /// Two members of the same name.
    Duplicate,
}

impl<'a> Object<'a> {
    pub(crate) fn parse(json: &'a [u8]) -> Result<Self, ObjectError> {
        let json = core::str::from_utf8(json).map_err(|_| ObjectError::Malformed)?;
        let mut object: Self = serde_json::from_str(json).map_err(|_| ObjectError::Malformed)?;
        object
            .members
            .sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        let is_duplicate = |pair: &[(Cow<'_, str>, &RawValue)]| pair[0].0 == pair[1].0;
        if object.members.windows(2).any(is_duplicate) {
            return Err(ObjectError::Duplicate);
        }
        Ok(object)
    }

    /// Returns the text of a member.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.members.binary_search_by(|(it, _)| (**it).cmp(name));
        found.ok().map(|at| self.members[at].1.get())
    }
}

/// Parses a JSON string; `None` if it is not one.
pub(crate) fn text(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(8);
        while let Some((Name(name), value)) = map.next_entry()? {
            if members.len() == MEMBERS_MAX {
                return Err(A::Error::custom("too many members"));
            }
            members.push((name, value));
        }
        Ok(Object { members })
    }
}

/// Name of a member. Copied only if it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
