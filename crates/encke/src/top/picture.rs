//! The view as lines of text: a head, four tables with a row for each worker, nodes, slow sessions
//! and backends.
//!
//! Every line fits a terminal of 80 columns.

/// Texts of cells.
mod cells;
/// The program, and the rates of all workers together.
mod head;
/// The nodes of a cluster.
mod nodes;
/// Nodes, slow sessions and backends.
mod below;

use client::top::view::{Rates, Row, View};

use below::below;
use cells::{at, share, short};
use head::head;
use nodes::nodes;

/// A column of a table: its title, a shorter title for lack of room, and the text of a worker's
/// cell. A column is left out if it has no text for all workers together.
type Column = (&'static str, &'static str, fn(&Row) -> Option<String>);

/// Columns of the table of connections and events.
const LOAD: [Column; 12] = [
    ("BUSY", "BUSY", |row| Some(share(row.busy))),
    ("POLLS/s", "POLLS/s", |row| {
        Some(short(row.polls_per_second))
    }),
    ("EV/POLL", "EV/POLL", |row| {
        Some(row.events_per_poll.map_or("-".to_owned(), short))
    }),
    ("CONNS", "CONNS", |row| Some(short(row.connections as f64))),
    ("ACC/s", "ACC/s", |row| Some(short(row.accepts_per_second))),
    ("IN B/s", "IN B/s", |row| {
        Some(short(row.bytes_in_per_second))
    }),
    ("OUT B/s", "OUT B/s", |row| {
        Some(short(row.bytes_out_per_second))
    }),
    ("MAIL B", "MAIL B", |row| {
        Some(short(row.sessions.as_ref()?.mailbox_bytes as f64))
    }),
    ("OWED B", "OWED B", |row| {
        Some(short(row.sessions.as_ref()?.backlog_bytes as f64))
    }),
    ("SPL B/s", "SPL B/s", |row| {
        Some(short(row.relay.as_ref()?.spliced_bytes_per_second))
    }),
    ("PIPES", "PIPES", |row| {
        Some(short(row.relay.as_ref()?.pipes as f64))
    }),
    ("REQ/s", "REQ/s", |row| match row.sessions {
        // For a push server the number of requests is not shown: each one begins a session.
        Some(_) => None,
        None => Some(short(row.requests.as_ref()?.requests_answered_per_second)),
    }),
];

/// Columns of the table of times.
const TIME: [Column; 8] = [
    ("WAITING", "WAITING", |row| Some(share(row.waiting))),
    ("ACCEPT", "ACCEPT", |row| stage(row, "accept")),
    ("SIGNALS", "SIGNALS", |row| stage(row, "signals")),
    ("MAIL", "MAIL", |row| stage(row, "mail")),
    ("FAN-OUT", "FAN-OUT", |row| stage(row, "fan_out")),
    ("DEADLINES", "LIMITS", |row| stage(row, "deadlines")),
    ("CHECKS", "CHECKS", |row| stage(row, "checks")),
    ("CLOSING", "CLOSING", |row| stage(row, "closing")),
];

/// Columns of the table of system calls per second.
const CALLS: [Column; 9] = [
    ("EPOLL_WAIT", "WAIT", |row| call(row, "epoll_wait")),
    ("EPOLL_CTL", "CTL", |row| call(row, "epoll_ctl")),
    ("ACCEPT", "ACCEPT", |row| call(row, "accept")),
    ("CONNECT", "CONNECT", |row| call(row, "connect")),
    ("RECV", "RECV", |row| call(row, "recv")),
    ("SEND", "SEND", |row| call(row, "send")),
    ("SPLICE", "SPLICE", |row| call(row, "splice")),
    ("SHUTDOWN", "SHUT", |row| call(row, "shutdown")),
    ("CLOSE", "CLOSE", |row| call(row, "close")),
];

/// Starts of the titles of tables, by which a title is recognized.
const TITLES: [&str; 7] = [
    "node",
    "worker",
    "time",
    "calls/s",
    "polls of",
    "slowest readers",
    "backend",
];

/// Most characters of a line.
const COLUMNS: usize = 80;

/// Width of the first column in characters.
const CORNER: usize = 8;

/// Longest label of the histogram that leaves a blank before it, in characters.
const RANGE_MAX: usize = (COLUMNS - CORNER) / 10 - 1;

/// Lines besides the rows of workers: two of the head, and for each of four tables an empty line,
/// the titles and the totals.
const LINES_AROUND: usize = 2 + 4 * 3;

/// The workers that have a row in each table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workers {
    /// The busiest workers, at most this many.
    Busiest(usize),
    /// The workers from one on.
    From {
        /// Number of the first worker.
        first: usize,
        /// Number of workers at most.
        rows: usize,
    },
}

/// Returns how many rows of workers each table may have so that the picture fits `height` lines.
pub(super) fn rows_that_fit(height: usize, view: &View) -> usize {
    let others = nodes(view).len() + below(view).len();
    (height.saturating_sub(LINES_AROUND + others) / 4).max(1)
}

/// Returns whether a line is the title of a table.
pub(super) fn is_title(line: &str) -> bool {
    TITLES.iter().any(|title| {
        let rest = line.strip_prefix(title);
        rest.is_some_and(|rest| rest.starts_with("  "))
    })
}

/// Returns the whole picture, with a row for each of `workers`.
pub(super) fn lines(view: &View, workers: Workers) -> Vec<String> {
    let mut lines = head(view);
    lines.extend(nodes(view));
    let workers = match workers {
        Workers::Busiest(rows) => busiest(view, rows),
        Workers::From { first, rows } => (first..view.workers.len()).take(rows).collect(),
    };
    for (corner, columns) in [("worker", &LOAD[..]), ("time", &TIME), ("calls/s", &CALLS)] {
        lines.push(String::new());
        let all = &view.totals;
        let mut columns = columns.to_vec();
        columns.retain(|(_, _, cell)| cell(all).is_some());
        let cells = |row: &Row| {
            let cells = columns.iter().map(|(_, _, cell)| cell(row));
            cells.map(Option::unwrap_or_default).collect()
        };
        lines.extend(table(corner, titles(&columns), view, &workers, cells));
    }
    lines.push(String::new());
    let ranges = ranges(&view.totals.polls_by_events_per_second);
    let cells = |row: &Row| {
        let polls = &row.polls_by_events_per_second;
        ranges.iter().map(|range| short(at(polls, range))).collect()
    };
    let titles = ranges.iter().map(|range| brief(range)).collect();
    lines.extend(table("polls of", titles, view, &workers, cells));
    lines.extend(below(view));
    lines
}

/// Returns the titles of columns, preceded by an empty one. A title that would touch its neighbour
/// is replaced by the shorter one.
fn titles(columns: &[Column]) -> Vec<String> {
    let width = (COLUMNS - CORNER) / columns.len().max(1);
    let fits = |title: &str| title.len() < width;
    let all_fit = columns.iter().skip(1).all(|(title, ..)| fits(title));
    let title = |(long, brief, _): &Column| match all_fit {
        true => (*long).to_owned(),
        false => (*brief).to_owned(),
    };
    columns.iter().map(title).collect()
}

/// Returns the numbers of the busiest workers, in ascending order.
fn busiest(view: &View, rows: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..view.workers.len()).collect();
    numbers.sort_by(|&a, &b| view.workers[b].busy.total_cmp(&view.workers[a].busy));
    numbers.truncate(rows);
    numbers.sort_unstable();
    numbers
}

/// Returns the titles, a row for each worker, and one for all of them.
fn table(
    corner: &str,
    titles: Vec<String>,
    view: &View,
    workers: &[usize],
    cells: impl Fn(&Row) -> Vec<String>,
) -> Vec<String> {
    let mut rows = vec![(corner.to_owned(), titles)];
    let worker = |&number: &usize| (number.to_string(), cells(&view.workers[number]));
    rows.extend(workers.iter().map(worker));
    let all = match view.workers.len() {
        all if all > workers.len() => format!("all {all}"),
        _ => "all".to_owned(),
    };
    rows.push((all, cells(&view.totals)));
    rows.into_iter()
        .map(|(name, cells)| {
            let width = (COLUMNS - CORNER) / cells.len().max(1);
            let cells = cells.iter().map(|cell| format!("{cell:>width$}"));
            format!("{name:CORNER$}{}", cells.collect::<String>())
        })
        .collect()
}

/// Returns the labels of the histogram, by the number that each begins with.
fn ranges(polls: &Rates) -> Vec<String> {
    let first = |range: &String| {
        let digits = range.split('-').next().unwrap_or_default();
        digits.parse::<u64>().unwrap_or(u64::MAX)
    };
    let mut ranges: Vec<String> = polls.keys().cloned().collect();
    ranges.sort_by_key(first);
    ranges
}

/// Returns a label as the title of a column: `2-3`, or `128-` if there is no room for the end.
fn brief(range: &str) -> String {
    match range.split_once('-') {
        Some((first, _)) if range.len() > RANGE_MAX => format!("{first}-"),
        _ => range.to_owned(),
    }
}

fn stage(row: &Row, stage: &str) -> Option<String> {
    row.stages.get(stage).copied().map(share)
}

fn call(row: &Row, kind: &str) -> Option<String> {
    row.system_calls_per_second.get(kind).copied().map(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_in_the_order_of_their_numbers() {
        let labels = ["0", "1", "16-31", "2-3", "256", "4-7"];
        let polls = labels.map(|label| (label.to_owned(), 1.0)).into();
        assert_eq!(ranges(&polls), ["0", "1", "2-3", "4-7", "16-31", "256"]);
        assert_eq!(["64-127", "128-255"].map(brief), ["64-127", "128-"]);
    }
}
