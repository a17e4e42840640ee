//! `encke-lab plot`: plots a recording of `encke-lab record`.

use std::path::PathBuf;

use clap::Args;
use cli::arguments::Report;
use cli::failure::Failure;
use recorder::plot::panels::{self, PanelKind};
use recorder::plot::recording::Recording;
use recorder::plot::render;
use serde_json::json;

pub(crate) const HELP: &str = "\
Plots files of `encke-lab record` in the same panels, labelled with the names of the files. The
dashed lines and the scale on the right are bytes per connection: resident memory of the process,
and the growth of kernel memory since the first row. They are drawn only where there are at least
a tenth of the most connections.

Examples:
  encke-lab plot mem.csv -o mem.svg
  encke-lab plot before.csv after.csv -o both.png --title \"Before and after\"
  encke-lab plot mem.csv --panel memory --panel network -o two.svg";

#[derive(Debug, Args)]
pub(crate) struct PlotArguments {
    /// Files that `encke-lab record` wrote
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Image file to write; its name ends in .svg or .png
    #[arg(short, long, value_name = "FILE", required = true)]
    output: PathBuf,
    /// Title above the image
    #[arg(long, default_value = "")]
    title: String,
    /// Panel to draw, from top to bottom; repeatable [default: memory, kernel, connections and
    /// processor, as far as the files have them]
    #[arg(long = "panel", value_enum)]
    panels: Vec<PanelKind>,
    #[command(flatten)]
    report: Report,
}

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
    let told = json!({ "file": path, "panels": figure.panels.len(), "rows": rows });
    let text = || format!("{path}: {rows} rows");
    arguments.report.print(&told, text)
}
