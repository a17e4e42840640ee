//! Line charts for reports: lines over time, in panels above each other.
//!
//! `recording` parses what `record` wrote, `panels` selects what to draw, `scale` chooses units and
//! ticks, `canvas` draws texts and lines on any backend, `figure` draws a figure with it, and
//! `render` writes SVG and PNG files.

pub mod recording;
pub mod panels;
mod scale;
pub mod canvas;
mod figure;
pub mod render;

/// Unit of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Bytes for each connection.
    BytesEach,
    /// Bytes a second.
    BytesPerSecond,
    /// A number of things.
    Count,
    /// Things a second.
    PerSecond,
    /// Busy processors.
    Cores,
    /// Seconds.
    Seconds,
}

/// Line of a chart, in pieces if it has gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name in the legend. Lines with the same label have the same colour.
    pub label: String,
    /// Points from left to right, in the units of the axes.
    pub pieces: Vec<Vec<(f64, f64)>>,
}

impl Line {
    /// Creates a line without gaps.
    pub fn whole(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            label: label.into(),
            pieces: vec![points],
        }
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.pieces.iter().flatten().copied()
    }
}

/// Lines that share a vertical scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What the lines show.
    pub title: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Lines.
    pub lines: Vec<Line>,
}

/// Horizontal scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XScale {
    /// Seconds since the start.
    #[default]
    Time,
    /// Quantiles 0.9, 0.99 and so on, evenly spaced.
    Nines,
}

/// One chart of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Solid lines, with the scale on the left.
    pub left: Axis,
    /// Dashed lines, with the scale on the right.
    pub right: Option<Axis>,
}

impl Panel {
    /// Creates a chart with a scale on the left alone.
    pub fn new(title: impl Into<String>, unit: Unit, lines: Vec<Line>) -> Self {
        let title = title.into();
        let left = Axis { title, unit, lines };
        Self { left, right: None }
    }
}

/// Panels above each other, with one horizontal scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Title; may be empty.
    pub title: String,
    /// Panels from top to bottom.
    pub panels: Vec<Panel>,
    /// Horizontal scale.
    pub across: XScale,
}

impl Figure {
    /// Creates a figure without a title.
    pub fn untitled(panels: Vec<Panel>, across: XScale) -> Self {
        Self {
            title: String::new(),
            panels,
            across,
        }
    }

    /// Returns the labels of all lines, each once, in order of appearance.
    fn labels(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = Vec::new();
        for line in self.axes().flat_map(|axis| &axis.lines) {
            if !labels.contains(&line.label.as_str()) {
                labels.push(&line.label);
            }
        }
        labels
    }

    fn axes(&self) -> impl Iterator<Item = &Axis> {
        self.panels
            .iter()
            .flat_map(|panel| std::iter::once(&panel.left).chain(&panel.right))
    }

    /// Returns the horizontal range of all lines.
    fn span(&self) -> (f64, f64) {
        let points = self
            .axes()
            .flat_map(|axis| &axis.lines)
            .flat_map(Line::points);
        points.fold((0.0, f64::MIN_POSITIVE), |(low, high), (x, _)| {
            (x.min(low), x.max(high))
        })
    }
}
