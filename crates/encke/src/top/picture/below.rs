//! The last lines of the picture: nodes, slow sessions and backends.

use client::top::view::{PushView, View};
use serde_json::Value;

use super::cells::{short, text};

/// Ids closed for being slow that are shown.
const SLOW_SHOWN: usize = 5;

/// Returns the lines below the tables of workers.
pub(super) fn below(view: &View) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(push) = &view.push {
        lines.extend(slowest(push));
        lines.extend(slow(push));
    }
    lines.extend(backends(view));
    lines
}

/// Returns the line of the sessions with the largest backlogs.
fn slowest(push: &PushView) -> Vec<String> {
    let Some(slowest) = &push.slowest else {
        let said = "slowest readers: not all workers have reported theirs in time".to_owned();
        return vec![String::new(), said];
    };
    if slowest.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        format!(
            "{:<20}{:>10}{:>10}  {:<22}{}",
            "slowest readers", "OWED B", "EVENTS", "PEER", "IDS"
        ),
    ];
    for session in slowest {
        let count = |member: &str| short(session[member].as_f64().unwrap_or(0.0));
        let ids = session["ids"].as_array().map_or(&[][..], Vec::as_slice);
        lines.push(format!(
            "{:<20}{:>10}{:>10}  {:<22}{}",
            text(&session["session"]),
            count("backlog_bytes"),
            count("backlog_frames"),
            text(&session["peer"]),
            ids.iter().map(text).collect::<Vec<_>>().join(","),
        ));
    }
    lines
}

/// Returns the line of the ids whose sessions were closed for being slow.
fn slow(push: &PushView) -> Vec<String> {
    if push.slow.is_empty() {
        return Vec::new();
    }
    let named = push.slow.iter().take(SLOW_SHOWN);
    let named = named.map(|slow| format!("{} ({})", text(&slow.id), slow.count));
    let named = named.collect::<Vec<_>>().join(", ");
    vec![String::new(), format!("closed as slow so far: {named}")]
}

/// Returns the lines of a proxy's backends.
fn backends(view: &View) -> Vec<String> {
    let Some(backends) = &view.backends else {
        return Vec::new();
    };
    let mut lines = vec![
        String::new(),
        format!(
            "{:<24}{:>8}{:>8}{:>8}{:>8}  {}",
            "backend", "STATE", "CONNS", "BEGUN/s", "FAIL/s", "LISTENER"
        ),
    ];
    lines.extend(backends.iter().map(|backend| {
        format!(
            "{:<24}{:>8}{:>8}{:>8}{:>8}  {}",
            text(&Value::from(&*backend.backend)),
            backend.state,
            short(backend.connections as f64),
            short(backend.connects_per_second),
            short(backend.connects_failed_per_second),
            backend.listener,
        )
    }));
    lines
}
