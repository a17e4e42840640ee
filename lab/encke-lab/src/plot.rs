//! `encke-lab plot`: plots a recording of `encke-lab record`.

/// Arguments of the command.
pub(crate) mod arguments;

use cli::failure::Failure;
use cli::output;
use recorder::plot::panels::{self, PanelKind};
use recorder::plot::recording::Recording;
use recorder::plot::render;
use serde_json::json;

use arguments::{PanelName, PlotArguments};

/// Draws a plot.
pub(crate) fn run(arguments: &PlotArguments) -> Result<(), Failure> {
    let recordings: Vec<Recording> = arguments
        .files
        .iter()
        .map(|path| Recording::read(path))
        .collect::<Result<_, _>>()?;
    let kinds: Vec<PanelKind> = arguments.panels.iter().copied().map(kind).collect();
    let kinds = (!kinds.is_empty()).then_some(kinds.as_slice());
    let figure = panels::figure(&recordings, kinds, &arguments.title)?;
    render::write(&figure, &arguments.output)?;
    let path = arguments.output.display().to_string();
    let rows: usize = recordings.iter().map(Recording::rows).sum();
    if arguments.report.json {
        let told = json!({ "file": path, "panels": figure.panels.len(), "rows": rows });
        return output::json(&told).map(drop);
    }
    output::line(format_args!("{path}: {rows} rows")).map(drop)
}

fn kind(name: PanelName) -> PanelKind {
    match name {
        PanelName::Memory => PanelKind::Memory,
        PanelName::Kernel => PanelKind::Kernel,
        PanelName::Connections => PanelKind::Connections,
        PanelName::Processor => PanelKind::CpuTime,
        PanelName::Network => PanelKind::Network,
    }
}
