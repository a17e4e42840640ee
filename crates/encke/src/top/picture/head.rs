//! The first lines of the picture: the program, and the rates of all workers together.

use cli::units::{age, human_count};
use client::top::view::{PushView, RelayRow, RequestsRow, Row, SessionsRow, View};

use super::cells::{at, short};

/// Returns the two lines.
pub(super) fn head(view: &View) -> Vec<String> {
    let all = &view.totals;
    let program = match &*view.program {
        "serve" => String::new(),
        other => format!("{other} "),
    };
    let draining = if view.draining { ", ending" } else { "" };
    let begun = format!(
        "encke {program}{}, up {}{draining}; ",
        view.version,
        age(view.uptime_seconds)
    );
    match (&view.push, &all.sessions, &all.relay, &all.requests) {
        (Some(push), Some(sessions), ..) => head_of_push(begun, push, sessions),
        (_, _, Some(relay), _) => head_of_relay(begun, all, relay),
        (_, _, _, Some(requests)) => head_of_requests(begun, all, requests),
        _ => vec![begun, String::new()],
    }
}

fn head_of_push(begun: String, push: &PushView, sessions: &SessionsRow) -> Vec<String> {
    let publishes: f64 = push.publishes_per_second.values().sum();
    let outcome = |outcome| short(at(&sessions.deliveries_per_second, outcome));
    vec![
        format!(
            "{begun}ids online: {}, sessions: {}, full sockets: {}",
            human_count(push.online),
            human_count(sessions.sessions),
            human_count(sessions.backlog_sessions),
        ),
        format!(
            "events/s: {} published (requests waiting: {}), {} written, {} queued, {} shed, {} \
             lost",
            short(publishes),
            push.publishes_pending,
            outcome("written"),
            outcome("queued"),
            outcome("shed"),
            outcome("lost"),
        ),
    ]
}

fn head_of_relay(begun: String, all: &Row, relay: &RelayRow) -> Vec<String> {
    let refused: f64 = all.refusals_per_second.values().sum();
    let relayed = |direction| short(at(&relay.relayed_bytes_per_second, direction));
    vec![
        format!(
            "{begun}pairs: {}, pipes: {}; B/s: {} up, {} down",
            human_count(all.connections),
            human_count(relay.pipes),
            relayed("up"),
            relayed("down"),
        ),
        format!(
            "connections/s: {} in, {} refused; {} out, {} of them again, {} failed",
            short(all.accepts_per_second),
            short(refused),
            short(relay.connects_per_second),
            short(relay.connect_retries_per_second),
            short(relay.connects_failed_per_second),
        ),
    ]
}

fn head_of_requests(begun: String, all: &Row, requests: &RequestsRow) -> Vec<String> {
    vec![
        format!("{begun}connections: {}", human_count(all.connections)),
        format!(
            "requests/s: {} answered, {} rejected",
            short(requests.requests_answered_per_second),
            short(requests.requests_rejected_per_second),
        ),
    ]
}
