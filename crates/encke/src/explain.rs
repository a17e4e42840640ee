//! `encke explain`: says whether an id would receive an event about a subject now, and why.

use clap::Args;
use cli::arguments::{ControlArguments, Report};
use cli::failure::Failure;
use cli::output;
use serde_json::Value;

pub(crate) const HELP: &str = "\
Examples:
  encke explain rj alice          # would alice get what is published about rj now?
  encke explain rj alice --json";

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// Id that an event would be about
    pub(crate) subject: String,
    /// Id that may get it
    pub(crate) subscriber: String,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Prints the verdict, its reasons and the sessions.
pub(crate) fn run(arguments: &ExplainArguments) -> Result<(), Failure> {
    let mut client = arguments.control.client()?;
    let answer = client.explain_delivery(&arguments.subject, &arguments.subscriber)?;
    if arguments.report.json {
        return output::json(&answer).map(drop);
    }
    output::foreign_line(text(&answer).trim_end()).map(drop)
}

fn text(answer: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let mut text = format!(
        "{}: {}\n",
        word(&answer["verdict"]),
        word(&answer["summary"])
    );
    for reason in answer["reasons"].as_array().into_iter().flatten() {
        let (name, detail) = (word(&reason["reason"]), word(&reason["detail"]));
        text.push_str(&format!("  {name:<14}  {detail}\n"));
    }
    for session in answer["sessions"].as_array().into_iter().flatten() {
        text.push_str(&session_line(session));
    }
    text
}

/// Returns the line of a session: its connection and its backlog.
fn session_line(session: &Value) -> String {
    let number = |name: &str| session[name].as_u64().unwrap_or(0);
    let word = |name: &str| session[name].as_str().unwrap_or("?");
    let state = match (session["via"].is_null(), session["behind"].as_bool()) {
        (true, _) => "would not get it".to_owned(),
        (false, Some(true)) => "reads on from the history".to_owned(),
        (false, _) if number("backlog_frames") > 0 => format!(
            "{} events, {} bytes wait for its socket",
            number("backlog_frames"),
            number("backlog_bytes")
        ),
        (false, _) => "live".to_owned(),
    };
    format!(
        "  session {} ({}, worker {}): {state}\n",
        word("session"),
        word("transport"),
        number("worker")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_verdict_comes_first_then_reasons_and_sessions() {
        let session = |via: Value, behind: bool, frames: u64| {
            json!({
                "session": "0/1#0", "transport": "sse", "worker": 0, "via": via, "behind": behind,
                "backlog_frames": frames, "backlog_bytes": frames * 10
            })
        };
        let answer = json!({
            "verdict": "yes", "summary": "All is well.",
            "reasons": [{"reason": "edge", "effect": "delivers", "detail": "There is an edge."}],
            "sessions": [
                session(json!("a"), false, 0), session(json!("a"), true, 0),
                session(json!(7), false, 2), session(Value::Null, false, 0)
            ]
        });
        assert_eq!(
            text(&answer),
            "yes: All is well.\n  \
             edge            There is an edge.\n  \
             session 0/1#0 (sse, worker 0): live\n  \
             session 0/1#0 (sse, worker 0): reads on from the history\n  \
             session 0/1#0 (sse, worker 0): 2 events, 20 bytes wait for its socket\n  \
             session 0/1#0 (sse, worker 0): would not get it\n"
        );
    }
}
