//! Request targets: ids and query values.
//!
//! Owns the rules of ids in a URL. Must never know which paths exist.

use std::borrow::Cow;

use crate::percent::{self, PercentError, Plus};
use crate::status::Status;

/// Most ids of one session. A client that needs more subjects subscribes an id to them.
pub const IDS_MAX: usize = 128;

/// Most bytes of an id, decoded. Ample for a UUID or an address, small enough to intern.
pub const ID_BYTES_MAX: usize = 128;

/// Reason why the ids of a target are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdsError {
    /// No id, or an empty one.
    Empty,
    /// An id longer than [`ID_BYTES_MAX`].
    TooLong,
    /// A percent sign without two hexadecimal digits (RFC 3986, section 2.1).
    BadPercent,
    /// Bytes that are not UTF-8 once decoded (RFC 3629).
    NotUtf8,
    /// A control character.
    Control,
    /// More ids than [`IDS_MAX`].
    TooMany,
    /// A slash: the path goes on where none should.
    ExtraPath,
    /// Ids in the path and in the query. A proxy whose access rules look at the path would not see
    /// those in the query.
    TwoPlaces,
}

impl IdsError {
    /// Returns the status to answer with.
    pub const fn status(self) -> Status {
        match self {
            Self::ExtraPath => Status::NOT_FOUND,
            _ => Status::BAD_REQUEST,
        }
    }

    /// Returns a sentence for the client: what was wrong and what is needed.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Empty => "An id is empty: an id must have 1 to 128 bytes.",
            Self::TooLong => "An id is too long: at most 128 bytes.",
            Self::BadPercent => {
                "A percent sign is not followed by two hexadecimal \
                 digits: write a percent sign as %25."
            }
            Self::NotUtf8 => "An id is not UTF-8: percent-encode its UTF-8 bytes.",
            Self::Control => "An id has a control character: remove it.",
            Self::TooMany => "There are too many ids: a session has at most 128.",
            Self::ExtraPath => "There is nothing at this path: write a slash in an id as %2F.",
            Self::TwoPlaces => {
                "There are ids in both the path and the query: put all of them into one, like \
                 /events/a,b or /events?id=a&id=b."
            }
        }
    }
}

/// Decodes the ids of a session: those in `segment`, the raw rest of the path, separated by commas,
/// or one in each `id` of the query. A comma that is part of an id is `%2C` in the segment, and
/// `,` or `%2C` in the query. Each id is returned once.
///
/// # Errors
///
/// When there is no id, when there are more than [`IDS_MAX`], when one of them is not valid, or
/// when there are ids in both places.
///
/// ```
/// use wire::target::{IdsError, ids};
///
/// assert_eq!(ids("42,alice%2Cbob", Some("x=y")).unwrap(), ["42", "alice,bob"]);
/// assert_eq!(ids("", Some("id=alice,bob&id=42")).unwrap(), ["alice,bob", "42"]);
/// assert_eq!(ids("42", Some("id=alice")), Err(IdsError::TwoPlaces));
/// assert_eq!(ids("42/", None), Err(IdsError::ExtraPath));
/// assert_eq!(ids("", None), Err(IdsError::Empty));
/// ```
pub fn ids<'a>(segment: &'a str, query: Option<&'a str>) -> Result<Vec<Cow<'a, str>>, IdsError> {
    let mut ids = Vec::new();
    if !segment.is_empty() {
        for raw in segment.split(',') {
            collect(&mut ids, decode_segment(raw)?)?;
        }
    }
    for raw in query_values(query, "id") {
        if !segment.is_empty() {
            return Err(IdsError::TwoPlaces);
        }
        collect(&mut ids, checked(percent_decode(raw, Plus::Space)?)?)?;
    }
    if ids.is_empty() {
        Err(IdsError::Empty)
    } else {
        Ok(ids)
    }
}

/// Decodes a path segment that is one id (RFC 3986, section 3.3).
///
/// # Errors
///
/// When the segment has a slash, a broken escape or bytes that are not UTF-8, or the decoded id is
/// empty, too long or has a control character.
pub fn decode_segment(raw: &str) -> Result<Cow<'_, str>, IdsError> {
    if memchr::memchr(b'/', raw.as_bytes()).is_some() {
        return Err(IdsError::ExtraPath);
    }
    checked(percent_decode(raw, Plus::Literal)?)
}

/// Decodes the first value of `name` in `query` as a form (WHATWG URL, section 5.1); `None` without
/// one. The value may have any length and any character: the rules of ids are for ids only.
///
/// # Errors
///
/// When the value has a broken escape or bytes that are not UTF-8.
pub fn query_value<'a>(
    query: Option<&'a str>,
    name: &str,
) -> Result<Option<Cow<'a, str>>, IdsError> {
    query_texts(query, name).next().transpose()
}

/// Returns whether a target names ids at all, valid or not.
pub fn names_ids(segment: &str, query: Option<&str>) -> bool {
    !segment.is_empty() || query_values(query, "id").next().is_some()
}

/// Decodes all values of `name` in `query` as a form, for a caller to whom a second value matters.
///
/// # Errors
///
/// In place of a value that has a broken escape or bytes that are not UTF-8.
pub fn query_texts<'a>(
    query: Option<&'a str>,
    name: &str,
) -> impl Iterator<Item = Result<Cow<'a, str>, IdsError>> {
    query_values(query, name).map(|raw| percent_decode(raw, Plus::Space))
}

/// Returns the raw values of `name` in `query`. Names are compared in decoded form; a name that
/// cannot be decoded is skipped.
fn query_values<'a>(query: Option<&'a str>, name: &str) -> impl Iterator<Item = &'a str> {
    query
        .unwrap_or_default()
        .split('&')
        .filter_map(move |pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let named = !pair.is_empty()
                && (key == name || percent_decode(key, Plus::Space).is_ok_and(|key| key == name));
            named.then_some(value)
        })
}

fn collect<'a>(ids: &mut Vec<Cow<'a, str>>, id: Cow<'a, str>) -> Result<(), IdsError> {
    if ids.contains(&id) {
        return Ok(());
    }
    if ids.len() == IDS_MAX {
        return Err(IdsError::TooMany);
    }
    ids.push(id);
    Ok(())
}

fn checked(id: Cow<'_, str>) -> Result<Cow<'_, str>, IdsError> {
    if id.is_empty() {
        Err(IdsError::Empty)
    } else if id.len() > ID_BYTES_MAX {
        Err(IdsError::TooLong)
    } else if id.chars().any(char::is_control) {
        Err(IdsError::Control)
    } else {
        Ok(id)
    }
}

fn percent_decode(raw: &str, plus: Plus) -> Result<Cow<'_, str>, IdsError> {
    percent::decode(raw, plus).map_err(|error| match error {
        PercentError::Broken { .. } => IdsError::BadPercent,
        PercentError::NotUtf8 { .. } => IdsError::NotUtf8,
    })
}
