//! `encke-lab friends load`: loads an edge list into a data directory or into a running server.

mod edges;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

use cli::failure::Failure;
use cli::progress::ProgressBar;
use cli::units::human_count;
use graph::{Directory, LoadOptions, LoadProgress};
use serde::Serialize;
use serde_json::Value;

use super::LoadArguments;
use edges::Edges;

/// Result of a load.
#[derive(Debug, Serialize)]
struct Report {
    added: u64,
    /// Subscriptions of the list that existed before; `None` for an empty directory, where they are
    /// not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    unchanged: Option<u64>,
    skipped: u64,
    seconds: f64,
}

/// Loads a list.
pub(super) fn run(arguments: &LoadArguments) -> Result<(), Failure> {
    let start = Instant::now();
    let (input, length) = open(&arguments.list)?;
    let (mut report, bad) = if arguments.place.online {
        online(arguments, input, length)?
    } else {
        offline(arguments, input, length)?
    };
    report.seconds = start.elapsed().as_secs_f64();
    for (line, why) in &bad {
        eprintln!("skipped line {line}: {why}");
    }
    let told = bad.len() as u64;
    if report.skipped > told {
        let more = human_count(report.skipped - told);
        eprintln!("skipped {more} more lines");
    }
    arguments.report.print(&report, || {
        let there = match report.unchanged {
            Some(unchanged) => format!(", {} unchanged", human_count(unchanged)),
            None => String::new(),
        };
        format!(
            "subscriptions: {} new{there}, in {:.1} s",
            human_count(report.added),
            report.seconds
        )
    })
}

/// Opens the list. Also returns its length in bytes, if that is known.
fn open(list: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    if list == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let unreadable =
        |error| Failure::failed(format_args!("{} cannot be read: {error}", list.display()));
    let file = File::open(list).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    Ok((Box::new(file), Some(length)))
}

/// Invalid lines that were skipped, with their numbers and the reasons.
type Skipped = Vec<(u64, String)>;

fn offline(
    arguments: &LoadArguments,
    input: impl Read,
    length: Option<u64>,
) -> Result<(Report, Skipped), Failure> {
    let directory = Directory::lock(&arguments.place.data.data)
        .map_err(|error| Failure::failed(error.or_online()))?;
    let options = LoadOptions {
        mutual: arguments.mutual,
        skip_bad: arguments.skip_bad,
    };
    // The bar shows what is read; writing takes a little longer.
    let reading = ProgressBar::of(length.unwrap_or(0), "bytes read");
    let writing = std::cell::OnceCell::new();
    let loaded = graph::load(&directory, input, options, |progress| match progress {
        LoadProgress::Reading { bytes, .. } => reading.reach(bytes),
        LoadProgress::Sorting => reading.end(),
        LoadProgress::Writing { written, of } => {
            let writing = writing.get_or_init(|| ProgressBar::of(of, "edges written"));
            writing.length(of);
            writing.reach(written);
        }
    });
    reading.end();
    if let Some(writing) = writing.get() {
        writing.end();
    }
    let loaded = loaded.map_err(Failure::failed)?;
    let report = Report {
        added: loaded.added,
        unchanged: None,
        skipped: loaded.bad,
        seconds: 0.0,
    };
    Ok((report, loaded.bad_lines))
}

fn online(
    arguments: &LoadArguments,
    input: impl Read,
    length: Option<u64>,
) -> Result<(Report, Skipped), Failure> {
    let mut client = arguments.place.control.client()?;
    let progress = ProgressBar::of(length.unwrap_or(0), "bytes sent");
    let tell = |bytes| progress.reach(bytes);
    let mut edges = Edges::new(input, arguments.mutual, arguments.skip_bad, tell);
    let answer = client.subscribe_many(&mut edges);
    progress.end();
    let answer = answer?;
    let count = |member: &str| answer[member].as_u64().unwrap_or(0);
    let report = Report {
        added: count("added"),
        unchanged: Some(count("unchanged")),
        skipped: edges.bad_count() + count("failed"),
        seconds: 0.0,
    };
    if let Some((line, why)) = edges.stopped() {
        return Err(Failure::failed(format_args!(
            "line {line}: {why}; the lines before it were loaded (subscriptions: {} new, {} \
             unchanged); correct the line and load again, or skip invalid lines with --skip-bad",
            human_count(report.added),
            human_count(count("unchanged"))
        )));
    }
    let mut skipped = edges.into_bad();
    skipped.extend(refused(&answer, arguments.mutual));
    Ok((report, skipped))
}

/// Returns the lines that the server refused, with the reasons.
fn refused(answer: &Value, mutual: bool) -> impl Iterator<Item = (u64, String)> {
    let errors = answer["errors"].as_array().cloned().unwrap_or_default();
    errors.into_iter().map(move |error| {
        let line = error["line"].as_u64().unwrap_or(0);
        // Each friendship is two lines to the server.
        let line = if mutual { line.div_ceil(2) } else { line };
        (line, error["error"].as_str().unwrap_or("").to_owned())
    })
}
