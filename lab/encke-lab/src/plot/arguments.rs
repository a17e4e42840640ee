//! `encke-lab plot`.

use std::path::PathBuf;

use clap::Args;
use cli::arguments::Report;
use recorder::plot::panels::PanelKind;

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
    pub(crate) files: Vec<PathBuf>,
    /// Image file to write; its name ends in .svg or .png
    #[arg(short, long, value_name = "FILE", required = true)]
    pub(crate) output: PathBuf,
    /// Title above the image
    #[arg(long, default_value = "")]
    pub(crate) title: String,
    /// Panel to draw, from top to bottom; repeatable [default: memory, kernel, connections and
    /// processor, as far as the files have them]
    #[arg(long = "panel", value_enum)]
    pub(crate) panels: Vec<PanelKind>,
    #[command(flatten)]
    pub(crate) report: Report,
}
