//! Section of the report about a killed server.

use machine::failure::Outcome;
use machine::humanize::count;
use recorder::plot::{Figure, Unit, XScale};

use super::parts::{append_chart, panel};
use crate::prove::restart::RestartResult;

/// Appends the section about the recovery of the users.
pub(super) fn recovery(restart: &RestartResult, page: &mut String) -> Outcome<()> {
    *page += &format!(
        "<h2>Killed and back</h2>\n<p class=\"note\">kill -9 while events were published. The \
             server was healthy again after {:.1} s, and all users had a stream again after {:.1} \
             s. Time without a stream: median {:.1} s, 99th percentile {:.1} s, maximum {:.1} s. \
             {} attempts to reconnect failed; {} events came again and were dropped.</p>\n",
        restart.server_seconds,
        restart.back_seconds,
        restart.absence.p50_us / 1e6,
        restart.absence.p99_us / 1e6,
        restart.absence.max_us / 1e6,
        count(restart.recovery.attempts_failed),
        count(restart.recovery.repeats),
    );
    let first = restart.streams.first().map_or(0.0, |(at, _)| *at);
    let points = restart.streams.iter();
    let points = points
        .map(|&(at, active)| (at - first, active as f64))
        .collect();
    let panel = panel("server", "Users with a stream", Unit::Count, points);
    let figure = Figure::untitled(vec![panel], XScale::Time);
    append_chart(&figure, page)
}
