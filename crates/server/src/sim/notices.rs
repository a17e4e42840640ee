//! What clients are told of who is online.

use std::collections::BTreeSet;

use serde_json::Value;

/// A notice of presence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// These ids are online. In the first piece of a snapshot, others are not.
    Snapshot {
        /// The ids.
        online: BTreeSet<String>,
        /// Whether it is the first piece.
        is_first: bool,
    },
    /// An id has come or gone.
    Edge {
        /// The id.
        id: String,
        /// Whether it is online.
        is_online: bool,
    },
}

impl Notice {
    /// Reads the data of a notice of this type; `None` if that is another one.
    pub(super) fn read(kind: &str, data: &str) -> Option<Self> {
        let value = serde_json::from_str(data).ok()?;
        Self::of(kind, &value)
    }

    /// Reads a line of NDJSON; `None` if it is no such notice.
    pub(super) fn of_line(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        Self::of(value["type"].as_str()?, &value["data"])
    }

    fn of(kind: &str, data: &Value) -> Option<Self> {
        let text = |id: &Value| id.to_string().trim_matches('"').to_owned();
        Some(match kind {
            "presence" => Self::Snapshot {
                online: data["online"].as_array()?.iter().map(text).collect(),
                is_first: data["first"] == true,
            },
            "online" | "offline" => Self::Edge {
                id: text(&data["id"]),
                is_online: kind == "online",
            },
            _ => return None,
        })
    }
}
