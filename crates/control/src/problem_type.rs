//! Types of problems, by which a client can tell them apart. docs/PROBLEMS.md describes each.
//!
//! A type keeps its name and its meaning in later versions; new ones may be added.

use axum::http::StatusCode;

/// Beginning of the URIs of all types. It names, and does not lead to a page.
pub(crate) const PREFIX: &str = "urn:encke:problem:";

/// Type of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

use ProblemType as T;

impl ProblemType {
    /// All types but [`Self::Other`], with their names, their statuses and their titles.
    pub(crate) const ALL: &'static [(Self, &'static str, u16, &'static str)] = &[
        (T::BadRequest, "bad-request", 400, "Bad request"),
        (
            T::Unauthorized,
            "unauthorized",
            401,
            "A valid token is needed",
        ),
        (
            T::NotLocal,
            "not-local",
            403,
            "Only programs of this machine may ask without a token",
        ),
        (
            T::InsufficientRight,
            "insufficient-right",
            403,
            "The token lacks the right",
        ),
        (
            T::NotFound,
            "not-found",
            404,
            "There is nothing at this path",
        ),
        (T::NoHistory, "no-history", 404, "There is no history"),
        (
            T::NoCluster,
            "no-cluster",
            404,
            "The server is not a node of a cluster",
        ),
        (
            T::NoPresence,
            "no-presence",
            404,
            "The server does not keep who is online",
        ),
        (
            T::MethodNotAllowed,
            "method-not-allowed",
            405,
            "The path does not take this method",
        ),
        (
            T::BodyTooLate,
            "body-too-late",
            408,
            "The body did not come in time",
        ),
        (
            T::NotConfigured,
            "not-configured",
            409,
            "The server is not configured for this",
        ),
        (
            T::KeyInUse,
            "key-in-use",
            409,
            "A request with this key is under way",
        ),
        (
            T::BatchBrokenOff,
            "batch-broken-off",
            409,
            "The batch with this key was cut short",
        ),
        (
            T::Conflict,
            "conflict",
            409,
            "Another request is in the way",
        ),
        (T::TooLarge, "too-large", 413, "The request is too large"),
        (
            T::UnsupportedMediaType,
            "unsupported-media-type",
            415,
            "The media type is not supported",
        ),
        (
            T::KeyOfAnother,
            "key-of-another",
            422,
            "The key belongs to another request",
        ),
        (
            T::HeadTooLarge,
            "head-too-large",
            431,
            "The head of the request is too large",
        ),
        (T::Internal, "internal", 500, "The server failed"),
        (T::DiskFailed, "disk-failed", 500, "The disk failed"),
        (T::Busy, "busy", 503, "The server can do this later"),
        (T::NotReady, "not-ready", 503, "The server takes no clients"),
        (
            T::LogUnavailable,
            "log-unavailable",
            503,
            "The log of the cluster takes nothing now",
        ),
        (
            T::Unconfirmed,
            "unconfirmed",
            504,
            "The outcome is not known",
        ),
        (T::Full, "full", 507, "The server has no room for this"),
    ];

    /// Returns the type that says no more than a status. The first one of a status is its general
    /// one, except for conflicts.
    pub(crate) fn of(status: StatusCode) -> Self {
        let general = |&&(kind, _, code, _): &&(Self, _, u16, _)| {
            code == status.as_u16()
                && !matches!(kind, T::NotConfigured | T::KeyInUse | T::BatchBrokenOff)
        };
        Self::ALL.iter().find(general).map_or(T::Other, |it| it.0)
    }

    /// Returns the name at the end of its URI, its status and its title.
    pub(crate) fn described(self) -> Option<(&'static str, u16, &'static str)> {
        let it = Self::ALL.iter().find(|(kind, ..)| *kind == self)?;
        Some((it.1, it.2, it.3))
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
        for (kind, name, status, _) in ProblemType::ALL {
            let row = format!("| `{name}` | {status} | ");
            assert_eq!(PAGE.matches(&row).count(), 1, "{row}");
            assert!(names.insert(*name), "{name} occurs twice");
            assert_eq!(kind.described().map(|it| it.0), Some(*name));
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
