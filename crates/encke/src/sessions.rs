//! `encke sessions`: lists or closes the sessions of an id.

use clap::Args;
use cli::arguments::{ControlArguments, Report};
use cli::failure::Failure;
use cli::output;
use cli::units::{age, human_count};
use serde_json::Value;

pub(crate) const HELP: &str = "\
Examples:
  encke sessions alice
  encke sessions alice --close";

#[derive(Debug, Args)]
pub(crate) struct SessionsArguments {
    /// Id whose sessions to list
    pub(crate) id: String,
    /// Close the sessions
    #[arg(long)]
    pub(crate) close: bool,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Column titles, and the member of the answer that each column shows.
const COLUMNS: [(&str, &str); 8] = [
    ("SESSION", "session"),
    ("TRANSPORT", "transport"),
    ("AGE", "age_seconds"),
    ("PEER", "peer"),
    ("WORKER", "worker"),
    ("BACKLOG", "backlog_bytes"),
    ("UNACKED", "bytes_unacknowledged"),
    ("IDS", "ids"),
];

/// Prints the sessions of an id, or closes them.
pub(crate) fn run(arguments: &SessionsArguments) -> Result<(), Failure> {
    let mut client = arguments.control.client()?;
    let id = &arguments.id;
    if arguments.close {
        let answer = client.close_sessions(id)?;
        let count = answer["closed"].as_u64().unwrap_or(0);
        let plural = if count == 1 { "" } else { "s" };
        let text = || format!("closed {count} session{plural} of {id}");
        return arguments.report.print(&answer, text);
    }
    let answer = client.sessions(id)?;
    if arguments.report.json {
        return output::json(&answer).map(drop);
    }
    let sessions = answer["sessions"].as_array().map_or(&[][..], Vec::as_slice);
    if sessions.is_empty() {
        return output::line(format_args!("{id} has no session")).map(drop);
    }
    let reading = output::line(table(sessions).trim_end())?;
    if reading.is_continue()
        && let Some(note) = shortfall(&answer)
    {
        eprintln!("{note}");
    }
    Ok(())
}

/// Returns a note if the table does not have all sessions.
fn shortfall(answer: &Value) -> Option<String> {
    let (total, shown) = (answer["total"].as_u64()?, answer["shown"].as_u64()?);
    (shown < total).then(|| {
        format!(
            "{} of {} sessions are shown: each worker reports only a limited number",
            human_count(shown),
            human_count(total)
        )
    })
}

fn table(sessions: &[Value]) -> String {
    let titles = COLUMNS.map(|(title, _)| title.to_owned());
    let rows = sessions
        .iter()
        .map(|session| COLUMNS.map(|(_, name)| cell(name, &session[name])));
    output::table(&std::iter::once(titles).chain(rows).collect::<Vec<_>>())
}

fn cell(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items
            .iter()
            .map(|item| cell(name, item))
            .collect::<Vec<_>>()
            .join(","),
        Value::Number(number) if name == "age_seconds" => age(number.as_f64().unwrap_or(0.0)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let session = serde_json::json!({
            "session": "0:1", "ids": ["alice", 7], "transport": "sse", "age_seconds": 3700.5,
            "peer": null, "worker": 0, "backlog_bytes": 0, "bytes_unacknowledged": null
        });
        assert_eq!(
            table(&[session]),
            "SESSION  TRANSPORT  AGE   PEER  WORKER  BACKLOG  UNACKED  IDS\n\
             0:1      sse        1h1m  -     0       0        -        alice,7\n"
        );
    }

    #[test]
    fn sessions_that_are_not_shown_are_mentioned() {
        let answer = |total: u64, shown: u64| serde_json::json!({"total": total, "shown": shown});
        assert_eq!(shortfall(&answer(2048, 2048)), None);
        let note = shortfall(&answer(5000, 2048)).unwrap();
        assert!(
            note.starts_with("2,048 of 5,000 sessions are shown"),
            "{note}"
        );
    }
}
