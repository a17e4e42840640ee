//! Parts of which sections of the page consist: text, charts, and rates for them.

use machine::failure::Outcome;
use recorder::plot::{Figure, Line, Panel, Unit, render};

/// Returns the rate at which a count grows, over time.
pub(super) fn rates(counts: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let pairs = counts.windows(2);
    let rates = pairs.filter_map(|pair| {
        let ((before, less), (now, more)) = (pair[0], pair[1]);
        (now > before).then(|| (now, more.saturating_sub(less) as f64 / (now - before)))
    });
    rates.collect()
}

/// Returns a panel with one line.
pub(super) fn panel(label: &str, title: &str, unit: Unit, points: Vec<(f64, f64)>) -> Panel {
    Panel::new(title, unit, vec![Line::whole(label, points)])
}

pub(super) fn append_chart(figure: &Figure, page: &mut String) -> Outcome<()> {
    let svg = render::svg(figure)?;
    // An XML declaration is not allowed within a page.
    let svg = svg.find("<svg").map_or(&svg[..], |start| &svg[start..]);
    *page += &format!("<figure>\n{svg}</figure>\n");
    Ok(())
}
