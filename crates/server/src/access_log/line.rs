//! Entries of the access log as lines of JSON.

use std::time::Duration;

use graph::Id;
use serde::Serialize;
use wire::response::timestamp;

use super::{AccessEntry, Accessed, LoggedRequest};

/// The members of a line, in their order. Those that say nothing are left out.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<&'a [Id]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    status: Option<u16>,
    bytes: Option<u64>,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// Appends an entry as a line. Line breaks and other control characters are escaped.
pub(super) fn push(entry: &AccessEntry, out: &mut Vec<u8>) {
    let (transport, ids, request) = match &entry.what {
        Accessed::Request(request) => (None, None, request.as_ref()),
        Accessed::Session { transport, ids } => (Some(*transport), Some(&**ids), None),
    };
    let line = Line {
        time: timestamp(entry.time),
        client: entry.client.map(|client| client.to_string()),
        transport,
        ids,
        method: request.map(|LoggedRequest { method, .. }| *method),
        path: request.map(|LoggedRequest { path, .. }| &**path),
        status: entry.status,
        bytes: entry.bytes,
        seconds: rounded(entry.duration),
        reason: entry.reason,
    };
    // All members are strings and numbers.
    let text = serde_json::to_string(&line).unwrap_or_default();
    for character in text.chars() {
        // JSON allows some that a terminal obeys, or that other readers take for the end of a line.
        match character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
            true => out.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes()),
            false => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'\n');
}

/// Returns a time in seconds, in milliseconds' steps, as workers know it.
fn rounded(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(ids: &[&str]) -> AccessEntry {
        AccessEntry {
            time: 784_111_777,
            client: Some([192, 0, 2, 1].into()),
            what: Accessed::Session {
                transport: "sse",
                ids: ids.iter().map(|id| id.parse().unwrap()).collect(),
            },
            status: Some(200),
            bytes: Some(1234),
            duration: Duration::from_millis(61_007),
            reason: Some("peer"),
        }
    }

    fn line(entry: &AccessEntry) -> String {
        let mut out = Vec::new();
        push(entry, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_session_is_a_line_with_its_ids_and_its_end() {
        let expected = concat!(
            r#"{"time":"1994-11-06T08:49:37Z","client":"192.0.2.1","transport":"sse","#,
            r#""ids":["alice",7],"status":200,"bytes":1234,"seconds":61.007,"reason":"peer"}"#,
            "\n"
        );
        assert_eq!(line(&session(&["alice", "7"])), expected);
    }

    #[test]
    fn a_hostile_id_or_path_forges_no_line_and_no_member() {
        let hostile = "a\",\"status\":200}\u{2028}{\"x\":\"é\\";
        let session = session(&[hostile]);
        let path = "/\"},\u{7f}{\"status\":200";
        let request = AccessEntry {
            what: Accessed::Request(Some(LoggedRequest {
                method: "GET",
                path: path.into(),
            })),
            status: None,
            bytes: None,
            reason: None,
            ..session.clone()
        };
        for (entry, member, value) in [(&session, "ids", hostile), (&request, "path", path)] {
            let line = line(entry);
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(!line.trim_end().chars().any(char::is_control), "{line}");
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            let found = read[member].as_str().or(read[member][0].as_str());
            assert_eq!(found, Some(value));
        }
    }
}
