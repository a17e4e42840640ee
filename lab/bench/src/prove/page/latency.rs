//! The part of the page that shows the latency of deliveries and receipts.

use machine::failure::Outcome;
use machine::humanize::count;
use recorder::plot::{Axis, Figure, Line, Panel, Unit, XScale};

use super::parts::{append_chart, push};
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
    let (latency, published) = (&driven.latency, &driven.published.latency);
    // Both columns of a row that has means and deviations: those are the rows of tcprstat.
    macro_rules! with_spread {
        ($us:ident, $mean:ident, $stdev:ident) => {
            (
                (latency.$us, Some((latency.$mean, latency.$stdev))),
                Some((published.$us, Some((published.$mean, published.$stdev)))),
            )
        };
    }
    let plain = |delivered, receipt: Option<f64>| ((delivered, None), receipt.map(|us| (us, None)));
    let rows = [
        ("the fastest", plain(latency.min_us, Some(published.min_us))),
        ("50 %", plain(latency.p50_us, Some(published.p50_us))),
        ("90 %", plain(latency.p90_us, None)),
        ("95 %", with_spread!(p95_us, p95_mean_us, p95_stdev_us)),
        ("99 %", with_spread!(p99_us, p99_mean_us, p99_stdev_us)),
        ("99.9 %", plain(latency.p999_us, Some(published.p999_us))),
        ("99.99 %", plain(latency.p9999_us, None)),
        ("all", with_spread!(max_us, mean_us, stdev_us)),
    ];
    push(
        page,
        format_args!(
            "<h2>Latency</h2>\n<p class=\"note\">From the time at which an event was due, whether \
             or not it was sent in time; {} deliveries. In brackets: mean and standard deviation \
             of the times up to the percentile.</p>\n<table>\n<thead><tr><th>Percentile</th><th \
             class=\"n\">Delivered, ms</th><th class=\"n\">Receipt, ms</th></tr>\
             </thead>\n<tbody>\n",
            count(latency.count)
        ),
    );
    for (share, (delivered, receipt)) in rows {
        let receipt = receipt.map_or_else(String::new, milliseconds);
        push(
            page,
            format_args!(
                "<tr><td>{share}</td><td class=\"n\">{}</td><td class=\"n\">{receipt}</td></tr>\n",
                milliseconds(delivered)
            ),
        );
    }
    page.push_str("</tbody>\n</table>\n");
    if latency.count > 0 {
        let nines = |share: f64, us: f64| (-(1.0 - share).log10(), us / 1e6);
        let points = vec![
            nines(0.5, latency.p50_us),
            nines(0.9, latency.p90_us),
            nines(0.99, latency.p99_us),
            nines(0.999, latency.p999_us),
            nines(0.9999, latency.p9999_us),
        ];
        let axis = Axis {
            title: "Latency of deliveries".to_owned(),
            unit: Unit::Seconds,
            lines: vec![Line::whole("delivered", points)],
        };
        let figure = Figure {
            title: String::new(),
            panels: vec![Panel {
                left: axis,
                right: None,
            }],
            across: XScale::Nines,
        };
        append_chart(&figure, page)?;
    }
    Ok(())
}
