//! `encke-lab plot`: plots a recording of `encke-lab record`.

/// Arguments of the command.
pub(crate) mod arguments;

use cli::failure::Failure;
use cli::output;
use recorder::plot::panels;
use recorder::plot::recording::Recording;
use recorder::plot::render;
use serde_json::json;

use arguments::PlotArguments;

/// Draws a plot.
pub(crate) fn run(arguments: &PlotArguments) -> Result<(), Failure> {
    let recordings: Vec<Recording> = arguments
        .files
        .iter()
        .map(|path| Recording::read(path))
        .collect::<Result<_, _>>()?;
    let kinds = Some(&arguments.panels[..]).filter(|kinds| !kinds.is_empty());
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
