//! Drawing of a figure on any backend: title, legend, panels, scales.
//!
//! Positions are in points. A backend with more pixels to a point draws the same figure larger.

mod points;

use plotters::backend::DrawingBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::{PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle};

use super::scale::{self, Scale};
use super::{Axis, Figure, Line, Panel, XScale};
use points::{dashes, thin};

/// Font families, the first preferred.
pub const FONT: &str = "Roboto, Helvetica, Arial, sans-serif";

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
const TITLE_SIZE: f64 = 21.0;

/// Number of ticks to aim at.
const TICKS_UP: usize = 4;
const TICKS_ACROSS: usize = 9;

pub(super) const PAPER: RGBColor = RGBColor(255, 255, 255);
const INK: RGBColor = RGBColor(31, 35, 40);
const GREY: RGBColor = RGBColor(101, 109, 118);
const GRID: RGBColor = RGBColor(225, 228, 232);

/// Colours that are distinct for the colour-blind too (Okabe and Ito, 2008), on white and on black.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

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
    area: &'a DrawingArea<B, Shift>,
    figure: &'a Figure,
    /// Pixels of a point.
    grain: f64,
    labels: Vec<&'a str>,
    /// Range of the horizontal axis, in the figure's units.
    span: (f64, f64),
}

/// Draws `figure` on `area`, with `grain` pixels to a point.
pub(super) fn draw<B: DrawingBackend>(
    figure: &Figure,
    area: &DrawingArea<B, Shift>,
    grain: f64,
) -> Drawn<B> {
    area.fill(&PAPER)?;
    let drawing = Drawing {
        area,
        figure,
        grain,
        labels: figure.labels(),
        span: figure.span(),
    };
    if !figure.title.is_empty() {
        let (x, y) = (MARGIN, TITLE_HEIGHT / 2);
        drawing.text(&figure.title, (x, y), TITLE_SIZE, INK, HPos::Left)?;
    }
    drawing.legend()?;
    let mut y = top(figure);
    for panel in &figure.panels {
        drawing.panel(panel, y)?;
        y += PANEL_GAP + PANEL_HEIGHT;
    }
    drawing.foot(y)?;
    area.present()
}

impl<B: DrawingBackend> Drawing<'_, B> {
    /// Draws a panel and its title, from `y` down.
    fn panel(&self, panel: &Panel, y: i32) -> Drawn<B> {
        let (first, last) = (y + PANEL_GAP, y + PANEL_GAP + PANEL_HEIGHT);
        let scale = scale_of(&panel.left);
        let title = titled(&panel.left, &scale);
        self.text(
            &title,
            (MARGIN, first - 18),
            TEXT_SIZE * 1.1,
            INK,
            HPos::Left,
        )?;
        let right = panel.right.as_ref().map(|axis| (axis, scale_of(axis)));
        for &tick in &scale.ticks {
            let y = up(tick, &scale, first, last);
            self.rule((MARGIN, y), (WIDTH as i32 - MARGIN, y), GRID)?;
            let at = (MARGIN - TICK - 3, y);
            self.text(&scale.label(tick), at, TEXT_SIZE, GREY, HPos::Right)?;
        }
        if let Some((axis, scale)) = &right {
            let edge = WIDTH as i32 - MARGIN;
            let title = format!("{} (dashed)", titled(axis, scale));
            self.text(
                &title,
                (edge, first - 18),
                TEXT_SIZE * 1.1,
                GREY,
                HPos::Right,
            )?;
            for &tick in &scale.ticks {
                let y = up(tick, scale, first, last);
                self.rule((edge, y), (edge + TICK, y), GREY)?;
                let at = (edge + TICK + 3, y);
                self.text(&scale.label(tick), at, TEXT_SIZE, GREY, HPos::Left)?;
            }
        }
        self.vertical_lines(first, last)?;
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

    /// Draws the vertical grid lines and the line at the bottom.
    fn vertical_lines(&self, first: i32, last: i32) -> Drawn<B> {
        for (x, _) in self.ticks_across() {
            self.rule((x, first), (x, last), GRID)?;
        }
        self.rule((MARGIN, last), (WIDTH as i32 - MARGIN, last), GREY)
    }

    /// Draws the labels of the horizontal axis.
    fn foot(&self, y: i32) -> Drawn<B> {
        for (x, label) in self.ticks_across() {
            self.rule((x, y), (x, y + TICK), GREY)?;
            self.text(&label, (x, y + TICK + 10), TEXT_SIZE, GREY, HPos::Center)?;
        }
        let what = match self.figure.across {
            XScale::Time => {
                let (_, _, unit) = scale::time(self.span.1, TICKS_ACROSS);
                format!("time since the start, {unit}")
            }
            XScale::Nines => "percent of all that are not slower".to_owned(),
        };
        let middle = WIDTH as i32 / 2;
        self.text(
            &what,
            (middle, y + FOOT - 14),
            TEXT_SIZE,
            GREY,
            HPos::Center,
        )
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
                self.stroke(&part, colour, 2)?;
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
                self.stroke(&[from, (from.0 + 26.0, from.1)], colour, 4)?;
                self.text(label, (x + 34, y), TEXT_SIZE, INK, HPos::Left)?;
                x += legend_width(label);
                number += 1;
            }
            y += LEGEND_ROW;
        }
        Ok(())
    }

    fn stroke(&self, points: &[(f64, f64)], colour: RGBColor, width: u32) -> Drawn<B> {
        let pixels: Vec<(i32, i32)> = points
            .iter()
            .map(|&(x, y)| ((x * self.grain) as i32, (y * self.grain) as i32))
            .collect();
        let width = (f64::from(width) * self.grain) as u32;
        self.area
            .draw(&PathElement::new(pixels, colour.stroke_width(width)))
    }

    /// Draws a thin line that is sharp at any scale.
    fn rule(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Drawn<B> {
        let grain = self.grain as i32;
        let corner = |(x, y): (i32, i32)| (x * grain, y * grain);
        let (from, to) = (corner(from), corner(to));
        if grain == 1 {
            let style = ShapeStyle::from(&colour).stroke_width(1);
            return self.area.draw(&PathElement::new(vec![from, to], style));
        }
        let opposite = (to.0 + grain - 1, to.1 + grain - 1);
        self.area
            .draw(&Rectangle::new([from, opposite], colour.filled()))
    }

    fn text(
        &self,
        text: &str,
        (x, y): (i32, i32),
        size: f64,
        colour: RGBColor,
        side: HPos,
    ) -> Drawn<B> {
        let style = (FONT, size * self.grain)
            .into_font()
            .color(&colour)
            .pos(Pos::new(side, VPos::Center));
        let at = |points: i32| (f64::from(points) * self.grain) as i32;
        self.area
            .draw(&Text::new(text.to_owned(), (at(x), at(y)), style))
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
