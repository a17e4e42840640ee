//! Pictures that belong in a report: lines over time, a panel above the other.
//!
//! `recording` reads what `record` wrote, `panels` says what is drawn of it, `scale` chooses units
//! and ticks, `figure` draws on any paper, `render` is a file: SVG or PNG.

pub mod recording;
pub mod panels;
mod scale;
mod figure;
pub mod render;

/// What an axis measures; it is labelled in steps of a thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Bytes for each connection.
    BytesEach,
    /// Bytes in a second.
    BytesPerSecond,
    /// Things, each of them one.
    Count,
    /// Things in a second.
    PerSecond,
    /// Processors that are busy.
    Cores,
    /// Time, in seconds.
    Seconds,
}

/// A line: where it has gaps, its pieces.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is of, for the legend; lines of one label have one colour.
    pub label: String,
    /// Points from left to right, in the units of the axes.
    pub pieces: Vec<Vec<(f64, f64)>>,
}

impl Line {
    /// A line without gaps.
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

/// Lines that share a scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What is measured.
    pub title: String,
    /// In what.
    pub unit: Unit,
    /// The lines.
    pub lines: Vec<Line>,
}

/// What runs from left to right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum XScale {
    /// Seconds since the start.
    #[default]
    Time,
    /// How many of so many are no more than this: 0.9, 0.99 and so on, each nine as wide as the one
    /// before.
    Nines,
}

/// One picture of the figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Drawn whole, against the scale on the left.
    pub left: Axis,
    /// Drawn dashed, against the scale on the right.
    pub right: Option<Axis>,
}

/// Panels above each other, over one scale from left to right.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it shows; nothing where the text around it says so.
    pub title: String,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// What runs from left to right.
    pub across: XScale,
}

impl Figure {
    /// The labels of all lines, each once, in order of appearance.
    fn labels(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = Vec::new();
        for axis in self.axes() {
            for line in &axis.lines {
                if !labels.contains(&line.label.as_str()) {
                    labels.push(&line.label);
                }
            }
        }
        labels
    }

    fn axes(&self) -> impl Iterator<Item = &Axis> {
        self.panels
            .iter()
            .flat_map(|panel| std::iter::once(&panel.left).chain(&panel.right))
    }

    /// The span from left to right of all lines.
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
