//! The part of the page that shows the latency of deliveries and receipts.

use load::latency::Latency;
use machine::failure::Outcome;
use machine::humanize::count;
use recorder::plot::{Figure, Line, Panel, Unit, XScale};

use super::parts::append_chart;
use crate::prove::proof::DriveResult;

/// Formats a time in milliseconds. It is given in microseconds, if known with the mean and the
/// standard deviation of all times up to it.
fn milliseconds((us, spread): (f64, Option<(f64, f64)>)) -> String {
    let ms = |us: f64| format!("{:.3}", us / 1000.0);
    match spread {
        None => ms(us),
        Some((mean, stdev)) => format!("{} ({} &plusmn; {})", ms(us), ms(mean), ms(stdev)),
    }
}

/// Appends a table of percentiles, with means and standard deviations, and a chart to `page`.
pub(super) fn table(driven: &DriveResult, page: &mut String) -> Outcome<()> {
    let (latency, published) = (&driven.seen.totals.latency, &driven.published.latency);
    type Value = fn(&Latency) -> (f64, Option<(f64, f64)>);
    // Rows with means and deviations are those of tcprstat. Receipts are not in every row.
    let rows: [(&str, bool, Value); 8] = [
        ("the fastest", true, |of| (of.min_us, None)),
        ("50 %", true, |of| (of.p50_us, None)),
        ("90 %", false, |of| (of.p90_us, None)),
        ("95 %", true, |of| {
            (of.p95_us, Some((of.p95_mean_us, of.p95_stdev_us)))
        }),
        ("99 %", true, |of| {
            (of.p99_us, Some((of.p99_mean_us, of.p99_stdev_us)))
        }),
        ("99.9 %", true, |of| (of.p999_us, None)),
        ("99.99 %", false, |of| (of.p9999_us, None)),
        ("all", true, |of| {
            (of.max_us, Some((of.mean_us, of.stdev_us)))
        }),
    ];
    *page += &format!(
        "<h2>Latency</h2>\n<p class=\"note\">From the time at which an event was due, whether \
             or not it was sent in time; {} deliveries. In brackets: mean and standard deviation \
             of the times up to the percentile.</p>\n<table>\n<thead><tr><th>Percentile</th><th \
             class=\"n\">Delivered, ms</th><th class=\"n\">Receipt, ms</th></tr>\
             </thead>\n<tbody>\n",
        count(latency.count)
    );
    for (share, has_receipt, value) in rows {
        let delivered = milliseconds(value(latency));
        let receipt = match has_receipt {
            true => milliseconds(value(published)),
            false => String::new(),
        };
        *page += &format!(
            "<tr><td>{share}</td><td class=\"n\">{delivered}</td>\
             <td class=\"n\">{receipt}</td></tr>\n"
        );
    }
    *page += "</tbody>\n</table>\n";
    if latency.count > 0 {
        let nines = |share: f64, us: f64| (-(1.0 - share).log10(), us / 1e6);
        let points = vec![
            nines(0.5, latency.p50_us),
            nines(0.9, latency.p90_us),
            nines(0.99, latency.p99_us),
            nines(0.999, latency.p999_us),
            nines(0.9999, latency.p9999_us),
        ];
        let lines = vec![Line::whole("delivered", points)];
        let panel = Panel::new("Latency of deliveries", Unit::Seconds, lines);
        let figure = Figure::untitled(vec![panel], XScale::Nines);
        append_chart(&figure, page)?;
    }
    Ok(())
}
