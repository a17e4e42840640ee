//! Parts of which sections of the page consist: text, charts, and rates for them.

use std::fmt::{self, Write as _};

use machine::failure::Outcome;
use recorder::plot::{Axis, Figure, Line, Panel, Unit, render};

/// Returns the rate at which a count grows, over time.
pub(super) fn rates(counts: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let pairs = counts.windows(2);
    let rates = pairs.filter_map(|pair| {
        let ((before, less), (now, more)) = (pair[0], pair[1]);
        (now > before).then(|| (now, more.saturating_sub(less) as f64 / (now - before)))
    });
    rates.collect()
}

pub(super) fn panel(title: &str, unit: Unit, points: Vec<(f64, f64)>) -> Panel {
    Panel {
        left: Axis {
            title: title.to_owned(),
            unit,
            lines: vec![Line::whole("server", points)],
        },
        right: None,
    }
}

pub(super) fn append_chart(figure: &Figure, page: &mut String) -> Outcome<()> {
    let svg = render::svg(figure)?;
    // An XML declaration is not allowed within a page.
    let svg = svg.find("<svg").map_or(&svg[..], |start| &svg[start..]);
    push(page, format_args!("<figure>\n{svg}</figure>\n"));
    Ok(())
}

pub(super) fn push(page: &mut String, arguments: fmt::Arguments<'_>) {
    page.write_fmt(arguments).expect("a string takes any text");
}
