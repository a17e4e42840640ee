//! The nodes of a cluster: a line for each, and one for all of them.

use client::top::view::{NodeRow, View};
use serde_json::Value;

use super::cells::{share, short, text};

/// Characters of a node's name. A longer name is cut.
const NAME: usize = 12;

/// Silence of a node that is shown in place of its state: that of three reports.
const SILENT_SECONDS: f64 = 3.0;

/// Returns an empty line, the titles, and the lines of the nodes; nothing for a server that is not
/// in a cluster.
pub(super) fn nodes(view: &View) -> Vec<String> {
    let Some(nodes) = &view.nodes else {
        return Vec::new();
    };
    let mut lines = vec![
        String::new(),
        format!(
            "{:NAME$}{:>10}{:>7}{:>7}{:>7}{:>8}{:>9}{:>10}{:>9}",
            "node", "STATE", "BEHIND", "LAG s", "BUSY", "CONNS", "SESSIONS", "EVENTS/s", "OUT B/s"
        ),
    ];
    lines.extend(nodes.each.iter().map(line));
    // The state of the totals says how many nodes are ready.
    lines.push(line(&NodeRow {
        silent_seconds: 0.0,
        ..nodes.totals.clone()
    }));
    lines
}

fn line(node: &NodeRow) -> String {
    let known = |value: Option<f64>, show: fn(f64) -> String| value.map_or("-".to_owned(), show);
    let name: String = text(&Value::from(&*node.name))
        .chars()
        .take(NAME - 1)
        .collect();
    // The last reported state of a silent node means nothing.
    let state = match node.silent_seconds {
        silent if silent >= SILENT_SECONDS => format!("silent {silent:.0}s"),
        _ => node.state.replace('_', " "),
    };
    format!(
        "{name:NAME$}{state:>10}{:>7}{:>7}{:>7}{:>8}{:>9}{:>10}{:>9}",
        short(node.behind as f64),
        short(node.lag_seconds),
        known(node.busy, share),
        short(node.connections as f64),
        short(node.sessions as f64),
        known(node.written_per_second, short),
        known(node.bytes_out_per_second, short),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_a_terminal_and_a_silent_node_is_called_so() {
        let node = NodeRow {
            name: "a-name-that-is-far-too-long".to_owned(),
            state: "not_ready".to_owned(),
            behind: 123_456,
            lag_seconds: 1234.5,
            silent_seconds: 0.9,
            busy: Some(0.996),
            connections: 1_000_000,
            sessions: 999_999,
            written_per_second: Some(1_234_567.0),
            bytes_out_per_second: None,
            backlog_bytes: 0,
        };
        let shown = line(&node);
        assert!(shown.len() < 80, "{shown}");
        assert!(shown.starts_with("a-name-that  not ready"), "{shown}");
        let silent = line(&NodeRow {
            silent_seconds: 4.2,
            ..node
        });
        assert!(silent.contains("silent 4s"), "{silent}");
    }
}
