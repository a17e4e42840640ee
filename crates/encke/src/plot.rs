//! `encke plot`: pictures of what `encke record` wrote.

use machine::plot::panels::{self, Kind};
use machine::plot::paper;
use machine::plot::recording::Recording;
use serde_json::json;

use crate::arguments::{PanelName, PlotArguments};
use crate::failure::Failure;
use crate::output;

/// Draws.
pub(crate) fn run(arguments: &PlotArguments) -> Result<(), Failure> {
    let recordings: Vec<Recording> = arguments
        .files
        .iter()
        .map(|path| Recording::read(path))
        .collect::<Result<_, _>>()?;
    let kinds: Vec<Kind> = arguments.panels.iter().copied().map(kind).collect();
    let kinds = (!kinds.is_empty()).then_some(kinds.as_slice());
    let figure = panels::figure(&recordings, kinds, &arguments.title)?;
    paper::write(&figure, &arguments.output)?;
    let path = arguments.output.display().to_string();
    let rows: usize = recordings.iter().map(Recording::rows).sum();
    if arguments.report.json {
        let told = json!({ "file": path, "panels": figure.panels.len(), "rows": rows });
        return output::json(&told).map(drop);
    }
    output::line(format_args!("{path}: {rows} rows")).map(drop)
}

fn kind(name: PanelName) -> Kind {
    match name {
        PanelName::Memory => Kind::Memory,
        PanelName::Kernel => Kind::Kernel,
        PanelName::Connections => Kind::Connections,
        PanelName::Processor => Kind::Processor,
        PanelName::Network => Kind::Network,
    }
}
