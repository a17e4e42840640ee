//! Types of problems, by which a client can tell them apart. docs/PROBLEMS.md describes each.
//!
//! A type keeps its name and its meaning in later versions; new ones may be added.

use axum::http::StatusCode;
use serde::Serialize;

/// Beginning of the URIs of all types. It names, and does not lead to a page.
pub(crate) const PREFIX: &str = "urn:encke:problem:";

/// Type of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProblemType {
    BadRequest,
    Unauthorized,
    NotLocal,
    InsufficientRight,
    NotFound,
    NoHistory,
    NoCluster,
    NoPresence,
    MethodNotAllowed,
    BodyTooLate,
    NotConfigured,
    KeyInUse,
    BatchBrokenOff,
    Conflict,
    TooLarge,
    UnsupportedMediaType,
    KeyOfAnother,
    HeadTooLarge,
    Internal,
    DiskFailed,
    Busy,
    NotReady,
    LogUnavailable,
    Unconfirmed,
    Full,
    /// What has no type of its own: the status says all.
    Other,
}

use ProblemType::*;

impl ProblemType {
    /// All types but [`Self::Other`], with their statuses and their titles.
    pub(crate) const ALL: &'static [(Self, u16, &'static str)] = &[
        (BadRequest, 400, "Bad request"),
        (Unauthorized, 401, "A valid token is needed"),
        (
            NotLocal,
            403,
            "Only programs of this machine may ask without a token",
        ),
        (InsufficientRight, 403, "The token lacks the right"),
        (NotFound, 404, "There is nothing at this path"),
        (NoHistory, 404, "There is no history"),
        (NoCluster, 404, "The server is not a node of a cluster"),
        (NoPresence, 404, "The server does not keep who is online"),
        (MethodNotAllowed, 405, "The path does not take this method"),
        (BodyTooLate, 408, "The body did not come in time"),
        (NotConfigured, 409, "The server is not configured for this"),
        (KeyInUse, 409, "A request with this key is under way"),
        (BatchBrokenOff, 409, "The batch with this key was cut short"),
        (Conflict, 409, "Another request is in the way"),
        (TooLarge, 413, "The request is too large"),
        (UnsupportedMediaType, 415, "The media type is not supported"),
        (KeyOfAnother, 422, "The key belongs to another request"),
        (HeadTooLarge, 431, "The head of the request is too large"),
        (Internal, 500, "The server failed"),
        (DiskFailed, 500, "The disk failed"),
        (Busy, 503, "The server can do this later"),
        (NotReady, 503, "The server takes no clients"),
        (
            LogUnavailable,
            503,
            "The log of the cluster takes nothing now",
        ),
        (Unconfirmed, 504, "The outcome is not known"),
        (Full, 507, "The server has no room for this"),
    ];

    /// Returns the type that says no more than a status. The first one of a status is its general
    /// one, except for conflicts.
    pub(crate) fn of(status: StatusCode) -> Self {
        let general = |&&(kind, code, _): &&(Self, u16, _)| {
            code == status.as_u16() && !matches!(kind, NotConfigured | KeyInUse | BatchBrokenOff)
        };
        Self::ALL.iter().find(general).map_or(Other, |it| it.0)
    }

    /// Returns the name at the end of its URI: that of the variant, in small letters.
    pub(crate) fn name(self) -> String {
        let name = serde_json::to_value(self).expect("a variant is a string");
        name.as_str().unwrap_or_default().to_owned()
    }

    /// Returns its title.
    pub(crate) fn title(self) -> Option<&'static str> {
        let it = Self::ALL.iter().find(|(kind, ..)| *kind == self)?;
        Some(it.2)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const PAGE: &str = include_str!("../../../docs/PROBLEMS.md");

    /// Clients compare these texts: a name that changes breaks them.
    #[test]
    fn each_type_is_on_the_page_with_its_status_and_no_other_is() {
        let mut names = HashSet::new();
        for (kind, status, title) in ProblemType::ALL {
            let row = format!("| `{}` | {status} | ", kind.name());
            assert_eq!(PAGE.matches(&row).count(), 1, "{row}");
            assert!(names.insert(kind.name()), "{row} occurs twice");
            assert_eq!(kind.title(), Some(*title));
        }
        let rows = PAGE.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, names.len(), "the page has types that there are not");
        assert!(PAGE.contains(PREFIX));
    }

    #[test]
    fn a_status_has_its_general_type() {
        let of = |code| ProblemType::of(StatusCode::from_u16(code).unwrap());
        assert_eq!(of(403), ProblemType::NotLocal);
        assert_eq!(of(404), ProblemType::NotFound);
        assert_eq!(of(409), ProblemType::Conflict);
        assert_eq!(of(500), ProblemType::Internal);
        assert_eq!(of(503), ProblemType::Busy);
        assert_eq!(of(505), ProblemType::Other);
    }
}
