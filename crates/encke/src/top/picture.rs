//! What happened as lines of text: a head, four tables with a row for each worker, and who is slow.
//!
//! Must never be wider than it has to: the widest table fits a terminal of 80 columns.

use lab::top::view::{Rates, Row, View};
use serde_json::Value;

use crate::units::{age, spoken_count};

/// Titles of a table's columns and what each says of a worker.
type Column = (&'static str, fn(&Row) -> String);

/// What a worker has to do with the outside.
const LOAD: [Column; 9] = [
    ("BUSY", |row| share(row.busy)),
    ("POLLS/s", |row| short(row.polls_per_second)),
    ("EV/POLL", |row| {
        row.events_per_poll.map_or("-".to_owned(), short)
    }),
    ("CONNS", |row| short(row.connections as f64)),
    ("ACC/s", |row| short(row.accepts_per_second)),
    ("IN B/s", |row| short(row.bytes_in_per_second)),
    ("OUT B/s", |row| short(row.bytes_out_per_second)),
    ("MAIL B", |row| short(row.mailbox_bytes as f64)),
    ("OWED B", |row| short(row.backlog_bytes as f64)),
];

/// Where its time goes.
const TIME: [Column; 7] = [
    ("WAITING", |row| share(row.waiting)),
    ("ACCEPT", |row| share(at(&row.stages, "accept"))),
    ("SIGNALS", |row| share(at(&row.stages, "signals"))),
    ("MAIL", |row| share(at(&row.stages, "mail"))),
    ("FAN-OUT", |row| share(at(&row.stages, "fan_out"))),
    ("DEADLINES", |row| share(at(&row.stages, "deadlines"))),
    ("CLOSING", |row| share(at(&row.stages, "closing"))),
];

/// System calls a second.
const CALLS: [Column; 7] = [
    ("EPOLL_WAIT", |row| call(row, "epoll_wait")),
    ("EPOLL_CTL", |row| call(row, "epoll_ctl")),
    ("ACCEPT", |row| call(row, "accept")),
    ("RECV", |row| call(row, "recv")),
    ("SEND", |row| call(row, "send")),
    ("SHUTDOWN", |row| call(row, "shutdown")),
    ("CLOSE", |row| call(row, "close")),
];

/// Characters that a line may have.
const COLUMNS: usize = 80;

/// Characters of the first column.
const CORNER: usize = 8;

/// The widest label of the histogram that leaves a blank before it.
const RANGE_MAX: usize = (COLUMNS - CORNER) / 10 - 1;

/// Lines besides the rows of workers: a head of two, and of each table a blank, a title and the sum.
const LINES_AROUND: usize = 2 + 4 * 3;

/// Ids closed for being slow that are named.
const SLOW_SHOWN: usize = 5;

/// How many rows each table may have so that all of them fit.
pub(super) fn rows_that_fit(height: usize, view: &View) -> usize {
    let below = slowest(view).len() + slow(view).len();
    (height.saturating_sub(LINES_AROUND + below) / 4).max(1)
}

/// The whole picture, with `rows` workers at most: the busiest.
pub(super) fn lines(view: &View, rows: usize) -> Vec<String> {
    let mut lines = head(view);
    let workers = busiest(view, rows);
    for (corner, columns) in [("worker", &LOAD[..]), ("time", &TIME), ("calls/s", &CALLS)] {
        lines.push(String::new());
        let titles = columns.iter().map(|(title, _)| (*title).to_owned());
        let cells = |row: &Row| columns.iter().map(|(_, cell)| cell(row)).collect();
        lines.extend(table(corner, titles.collect(), view, &workers, cells));
    }
    lines.push(String::new());
    let ranges = ranges(&view.totals.polls_by_events_per_second);
    let cells = |row: &Row| {
        let polls = &row.polls_by_events_per_second;
        ranges.iter().map(|range| short(at(polls, range))).collect()
    };
    let titles = ranges.iter().map(|range| brief(range)).collect();
    lines.extend(table("polls of", titles, view, &workers, cells));
    lines.extend(slowest(view));
    lines.extend(slow(view));
    lines
}

fn head(view: &View) -> Vec<String> {
    let all = &view.totals;
    let publishes: f64 = view.publishes_per_second.values().sum();
    let outcome = |outcome| short(at(&all.deliveries_per_second, outcome));
    let draining = if view.draining { ", ending" } else { "" };
    vec![
        format!(
            "encke {}, up {}{draining}; ids online: {}, sessions: {}, full sockets: {}",
            view.version,
            age(view.uptime_seconds),
            spoken_count(view.online),
            spoken_count(all.sessions),
            spoken_count(all.backlog_sessions),
        ),
        format!(
            "events/s: {} published (requests waiting: {}), {} written, {} queued, {} shed, {} lost",
            short(publishes),
            view.publishes_pending,
            outcome("written"),
            outcome("queued"),
            outcome("shed"),
            outcome("lost"),
        ),
    ]
}

/// The numbers of the workers to be shown, in order.
fn busiest(view: &View, rows: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..view.workers.len()).collect();
    numbers.sort_by(|&a, &b| view.workers[b].busy.total_cmp(&view.workers[a].busy));
    numbers.truncate(rows);
    numbers.sort_unstable();
    numbers
}

/// A title, a row for each worker and one for all of them.
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
            let width = (COLUMNS - CORNER) / cells.len();
            let cells = cells.iter().map(|cell| format!("{cell:>width$}"));
            format!("{name:CORNER$}{}", cells.collect::<String>())
        })
        .collect()
}

/// The labels of the histogram, by the number that each begins with.
fn ranges(polls: &Rates) -> Vec<String> {
    let first = |range: &String| {
        let digits = range.split('-').next().unwrap_or_default();
        digits.parse::<u64>().unwrap_or(u64::MAX)
    };
    let mut ranges: Vec<String> = polls.keys().cloned().collect();
    ranges.sort_by_key(first);
    ranges
}

/// A label as the title of a column: `2-3`, and `128-` where there is no room for the end.
fn brief(range: &str) -> String {
    match range.split_once('-') {
        Some((first, _)) if range.len() > RANGE_MAX => format!("{first}-"),
        _ => range.to_owned(),
    }
}

/// The sessions that are owed most.
fn slowest(view: &View) -> Vec<String> {
    let Some(slowest) = &view.slowest else {
        let said = "slowest readers: not all workers have said who theirs are in time".to_owned();
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

/// Whose sessions were closed for being slow.
fn slow(view: &View) -> Vec<String> {
    if view.slow.is_empty() {
        return Vec::new();
    }
    let named = view.slow.iter().take(SLOW_SHOWN);
    let named = named.map(|slow| format!("{} ({})", text(&slow.id), slow.count));
    let named = named.collect::<Vec<_>>().join(", ");
    vec![String::new(), format!("closed as slow so far: {named}")]
}

/// An id or another value without the quotes of JSON. Control characters, which ids may have, would reach
/// the terminal: they are escaped.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text
            .chars()
            .map(|character| match character.is_control() {
                true => character.escape_default().to_string(),
                false => character.to_string(),
            })
            .collect(),
        other => other.to_string(),
    }
}

fn at(rates: &Rates, label: &str) -> f64 {
    rates.get(label).copied().unwrap_or(0.0)
}

fn call(row: &Row, kind: &str) -> String {
    short(at(&row.system_calls_per_second, kind))
}

/// A share of the time: `0.4%`, `37%`.
fn share(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        ..0.05 => "0%".to_owned(),
        ..9.95 => format!("{percent:.1}%"),
        _ => format!("{percent:.0}%"),
    }
}

/// A number in six characters at most: `0.3`, `9999`, `12.3k`, `4.56M`.
fn short(number: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    if number == 0.0 {
        return "0".to_owned();
    }
    if number < 9.95 && number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    if number < 9_999.5 {
        return format!("{number:.0}");
    }
    // Rounding must not make a thousand of a unit.
    let (factor, unit) = UNITS
        .into_iter()
        .find(|(factor, _)| number >= 0.9995 * factor)
        .unwrap_or((1.0, ""));
    let scaled = number / factor;
    match scaled {
        ..9.995 => format!("{scaled:.2}{unit}"),
        ..99.95 => format!("{scaled:.1}{unit}"),
        _ => format!("{scaled:.0}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (3.0, "3"),
            (9.94, "9.9"),
            (9.96, "10"),
            (9_999.0, "9999"),
            (9_999.6, "10.0k"),
            (12_345.0, "12.3k"),
            (999_400.0, "999k"),
            (999_900.0, "1.00M"),
            (4_560_000.0, "4.56M"),
            (12e9, "12.0G"),
        ] {
            assert_eq!(short(number), text);
        }
        assert_eq!(share(0.004), "0.4%");
        assert_eq!(share(0.0), "0%");
        assert_eq!(share(0.0996), "10%");
        assert_eq!(share(1.0), "100%");
    }

    #[test]
    fn ranges_are_in_the_order_of_their_numbers() {
        let labels = ["0", "1", "16-31", "2-3", "256", "4-7"];
        let polls = labels.map(|label| (label.to_owned(), 1.0)).into();
        assert_eq!(ranges(&polls), ["0", "1", "2-3", "4-7", "16-31", "256"]);
        assert_eq!(["64-127", "128-255"].map(brief), ["64-127", "128-"]);
    }

    #[test]
    fn an_id_cannot_move_the_cursor() {
        assert_eq!(text(&Value::from("a\x1b[2Jb")), "a\\u{1b}[2Jb");
        assert_eq!(text(&Value::from("märz")), "märz");
        assert_eq!(text(&Value::from(7)), "7");
    }
}
