//! Ids from JSON: integers as numbers, text as strings, validated like other input.
//!
//! Must never build an id that [`Id::parse`] or [`Id::integer`] would refuse.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::Id;

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

/// Visitor of one value.
struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id: a non-negative integer or a string")
    }

    fn visit_u64<E: de::Error>(self, integer: u64) -> Result<Id, E> {
        Id::integer(integer).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, integer: i64) -> Result<Id, E> {
        match u64::try_from(integer) {
            Ok(integer) => self.visit_u64(integer),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(integer), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
        Id::parse(text).map_err(E::custom)
    }
}
