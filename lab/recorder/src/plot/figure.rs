//! Drawing of a figure on any backend: title, legend, panels, scales.
//!
//! Positions are in points.

mod points;

use plotters::backend::DrawingBackend;

use super::canvas::{COLOURS, Canvas, Drawn, GREY, GRID, HPos, INK};
use super::scale::{self, Scale};
use super::{Axis, Figure, Line, Panel, XScale};
use points::{dashes, thin};

/// Width of every figure in points.
pub(super) const WIDTH: u32 = 1000;

const MARGIN: i32 = 84;
const PANEL_HEIGHT: i32 = 170;
/// Gap between panels, which holds the title of the next one.
const PANEL_GAP: i32 = 52;
const TITLE_HEIGHT: i32 = 40;
const LEGEND_ROW: i32 = 22;
const FOOT: i32 = 50;
const TICK: i32 = 5;

const TEXT_SIZE: f64 = 15.0;
const PANEL_TITLE_SIZE: f64 = TEXT_SIZE * 1.1;
const TITLE_SIZE: f64 = 21.0;

/// Number of ticks to aim at.
const TICKS_UP: usize = 4;
const TICKS_ACROSS: usize = 9;

/// Returns the height of a figure in points.
pub(super) fn height(figure: &Figure) -> u32 {
    let panels = figure.panels.len() as i32 * (PANEL_GAP + PANEL_HEIGHT);
    (top(figure) + panels + FOOT) as u32
}

/// Returns the position of the first panel's title.
fn top(figure: &Figure) -> i32 {
    let title = if figure.title.is_empty() {
        8
    } else {
        TITLE_HEIGHT
    };
    title + legend_rows(figure).len() as i32 * LEGEND_ROW
}

/// State of drawing one figure.
struct Drawing<'a, B: DrawingBackend> {
    canvas: &'a Canvas<B>,
    figure: &'a Figure,
    labels: Vec<&'a str>,
    /// Range of the horizontal axis, in the figure's units.
    span: (f64, f64),
}

/// Draws `figure` on `canvas`.
pub(super) fn draw<B: DrawingBackend>(figure: &Figure, canvas: &Canvas<B>) -> Drawn<B> {
    let drawing = Drawing {
        canvas,
        figure,
        labels: figure.labels(),
        span: figure.span(),
    };
    if !figure.title.is_empty() {
        let at = (MARGIN, TITLE_HEIGHT / 2);
        canvas.text(&figure.title, at, TITLE_SIZE, INK, HPos::Left)?;
    }
    drawing.legend()?;
    let mut y = top(figure);
    for panel in &figure.panels {
        drawing.panel(panel, y)?;
        y += PANEL_GAP + PANEL_HEIGHT;
    }
    drawing.foot(y)
}

impl<B: DrawingBackend> Drawing<'_, B> {
    /// Draws a panel and its title, from `y` down.
    fn panel(&self, panel: &Panel, y: i32) -> Drawn<B> {
        let (first, last) = (y + PANEL_GAP, y + PANEL_GAP + PANEL_HEIGHT);
        let scale = scale_of(&panel.left);
        let title = titled(&panel.left, &scale);
        let at = (MARGIN, first - 18);
        self.canvas
            .text(&title, at, PANEL_TITLE_SIZE, INK, HPos::Left)?;
        let right = panel.right.as_ref().map(|axis| (axis, scale_of(axis)));
        for &tick in &scale.ticks {
            let y = up(tick, &scale, first, last);
            self.canvas
                .rule((MARGIN, y), (WIDTH as i32 - MARGIN, y), GRID)?;
            let at = (MARGIN - TICK - 3, y);
            self.canvas
                .text(&scale.label(tick), at, TEXT_SIZE, GREY, HPos::Right)?;
        }
        if let Some((axis, scale)) = &right {
            let edge = WIDTH as i32 - MARGIN;
            let title = format!("{} (dashed)", titled(axis, scale));
            let at = (edge, first - 18);
            self.canvas
                .text(&title, at, PANEL_TITLE_SIZE, GREY, HPos::Right)?;
            for &tick in &scale.ticks {
                let y = up(tick, scale, first, last);
                self.canvas.rule((edge, y), (edge + TICK, y), GREY)?;
                let at = (edge + TICK + 3, y);
                self.canvas
                    .text(&scale.label(tick), at, TEXT_SIZE, GREY, HPos::Left)?;
            }
        }
        for (x, _) in self.ticks_across() {
            self.canvas.rule((x, first), (x, last), GRID)?;
        }
        let bottom = (MARGIN, last);
        self.canvas
            .rule(bottom, (WIDTH as i32 - MARGIN, last), GREY)?;
        if let Some((axis, scale)) = &right {
            for line in &axis.lines {
                self.line(line, scale, (first, last), true)?;
            }
        }
        for line in &panel.left.lines {
            self.line(line, &scale, (first, last), false)?;
        }
        Ok(())
    }

    /// Draws the labels of the horizontal axis.
    fn foot(&self, y: i32) -> Drawn<B> {
        for (x, label) in self.ticks_across() {
            self.canvas.rule((x, y), (x, y + TICK), GREY)?;
            self.canvas
                .text(&label, (x, y + TICK + 10), TEXT_SIZE, GREY, HPos::Center)?;
        }
        let what = match self.figure.across {
            XScale::Time => {
                let (_, _, unit) = scale::time(self.span.1, TICKS_ACROSS);
                format!("time since the start, {unit}")
            }
            XScale::Nines => "percent of all that are not slower".to_owned(),
        };
        let at = (WIDTH as i32 / 2, y + FOOT - 14);
        self.canvas.text(&what, at, TEXT_SIZE, GREY, HPos::Center)
    }

    /// Returns the positions and labels of the ticks on the horizontal axis.
    fn ticks_across(&self) -> Vec<(i32, String)> {
        match self.figure.across {
            XScale::Time => {
                let (ticks, factor, _) = scale::time(self.span.1, TICKS_ACROSS);
                let label = |tick: f64| {
                    let scaled = (tick / factor * 1000.0).round() / 1000.0;
                    (self.across(tick).round() as i32, scaled.to_string())
                };
                ticks.into_iter().map(label).collect()
            }
            XScale::Nines => {
                // A share like 0.9999 is not exact, so its number of nines is a little more or less
                // than four.
                let most = (self.span.1 + 1e-6).floor() as i32;
                let label = |nines: i32| {
                    let percent = 100.0 - 100.0 / 10_f64.powi(nines);
                    let digits = (nines - 2).max(0) as usize;
                    let x = self.across(f64::from(nines)).round() as i32;
                    (x, format!("{percent:.digits$}"))
                };
                (0..=most).map(label).collect()
            }
        }
    }

    /// Returns the horizontal position of a value, in points.
    fn across(&self, value: f64) -> f64 {
        let (low, high) = self.span;
        let width = f64::from(WIDTH as i32 - 2 * MARGIN);
        f64::from(MARGIN) + (value - low) / (high - low) * width
    }

    /// Draws a line in the colour of its label.
    fn line(
        &self,
        line: &Line,
        scale: &Scale,
        (first, last): (i32, i32),
        dashed: bool,
    ) -> Drawn<B> {
        let index = self.labels.iter().position(|label| *label == line.label);
        let colour = COLOURS[index.unwrap_or(0) % COLOURS.len()];
        let height = f64::from(last - first);
        for piece in &line.pieces {
            let points: Vec<(f64, f64)> = thin(piece)
                .into_iter()
                .map(|(x, y)| (self.across(x), f64::from(last) - y / scale.top * height))
                .collect();
            let parts = if dashed {
                dashes(&points)
            } else {
                vec![points]
            };
            for part in parts {
                self.canvas.stroke(&part, colour, 2)?;
            }
        }
        Ok(())
    }

    /// Draws the legend, if there is more than one label.
    fn legend(&self) -> Drawn<B> {
        let mut y = top(self.figure) - legend_rows(self.figure).len() as i32 * LEGEND_ROW + 8;
        let mut number = 0;
        for row in legend_rows(self.figure) {
            let mut x = MARGIN;
            for label in row {
                let colour = COLOURS[number % COLOURS.len()];
                let from = (f64::from(x), f64::from(y));
                self.canvas
                    .stroke(&[from, (from.0 + 26.0, from.1)], colour, 4)?;
                self.canvas
                    .text(label, (x + 34, y), TEXT_SIZE, INK, HPos::Left)?;
                x += legend_width(label);
                number += 1;
            }
            y += LEGEND_ROW;
        }
        Ok(())
    }
}

fn scale_of(axis: &Axis) -> Scale {
    let values = axis.lines.iter().flat_map(Line::points).map(|(_, y)| y);
    Scale::of(axis.unit, values.fold(0.0, f64::max), TICKS_UP)
}

fn titled(axis: &Axis, scale: &Scale) -> String {
    match scale.unit.as_str() {
        "" => axis.title.clone(),
        unit if axis.title.is_empty() => unit.to_owned(),
        unit => format!("{}, {unit}", axis.title),
    }
}

fn up(value: f64, scale: &Scale, first: i32, last: i32) -> i32 {
    last - (value / scale.top * f64::from(last - first)).round() as i32
}

/// Arranges the labels in rows that fit the figure's width. No rows if there is only one label.
fn legend_rows(figure: &Figure) -> Vec<Vec<&str>> {
    let labels = figure.labels();
    let mut rows: Vec<Vec<&str>> = Vec::new();
    if labels.len() < 2 {
        return rows;
    }
    let mut room = 0;
    for label in labels {
        let width = legend_width(label);
        if width > room || rows.is_empty() {
            rows.push(Vec::new());
            room = WIDTH as i32 - 2 * MARGIN;
        }
        room -= width;
        rows.last_mut().expect("a row was pushed").push(label);
    }
    rows
}

/// Estimates the width of an entry in points: letters are about half as wide as high.
fn legend_width(label: &str) -> i32 {
    60 + (label.chars().count() as f64 * TEXT_SIZE * 0.52) as i32
}
