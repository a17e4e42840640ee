//! Drawing of texts, lines and dots on any backend of the library.
//!
//! Positions are in points. A backend with more pixels to a point draws the same larger.

use plotters::backend::{DrawingBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{Pos, VPos};
use plotters::style::{Color, IntoFont, WHITE};

pub use plotters::style::RGBColor;
pub use plotters::style::text_anchor::HPos;

use super::render::load_font;
use machine::failure::{Context, Outcome};

/// Font families, the first preferred.
pub(super) const FONT: &str = "Roboto, Helvetica, Arial, sans-serif";

/// Colour of texts.
pub const INK: RGBColor = RGBColor(31, 35, 40);
/// Colour of what matters less.
pub const GREY: RGBColor = RGBColor(101, 109, 118);
/// Colour of lines behind all others.
pub const GRID: RGBColor = RGBColor(225, 228, 232);

/// Colours that are distinct for the colour-blind too (Okabe and Ito, 2008), on white and on black.
pub const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Result of drawing on backend `B`.
pub(super) type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Paper of an SVG document.
pub type SvgCanvas<'a> = Canvas<SVGBackend<'a>>;

/// Result of drawing an SVG document.
pub type SvgDrawn<'a> = Drawn<SVGBackend<'a>>;

/// Paper to draw on.
pub struct Canvas<B: DrawingBackend> {
    area: DrawingArea<B, Shift>,
    /// Pixels of a point.
    grain: f64,
}

/// Draws an SVG document of this size.
///
/// # Errors
///
/// When the drawing library fails.
pub fn svg(
    size: (u32, u32),
    draw: impl for<'a> FnOnce(&SvgCanvas<'a>) -> SvgDrawn<'a>,
) -> Outcome<String> {
    let mut text = String::new();
    Canvas::on(SVGBackend::with_string(&mut text, size), 1.0, draw).context("drawing an SVG")?;
    Ok(text)
}

impl<B: DrawingBackend> Canvas<B> {
    /// Draws on white paper, with `grain` pixels to a point.
    pub(super) fn on(backend: B, grain: f64, draw: impl FnOnce(&Self) -> Drawn<B>) -> Drawn<B> {
        load_font();
        let area = backend.into_drawing_area();
        let canvas = Self { area, grain };
        canvas.area.fill(&WHITE)?;
        draw(&canvas)?;
        canvas.area.present()
    }

    fn pixels(&self, (x, y): (f64, f64)) -> (i32, i32) {
        ((x * self.grain) as i32, (y * self.grain) as i32)
    }

    /// Writes a text, whose middle or end is at `(x, y)`.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    pub fn text(
        &self,
        text: &str,
        (x, y): (i32, i32),
        size: f64,
        colour: RGBColor,
        side: HPos,
    ) -> Drawn<B> {
        let font = (FONT, size * self.grain).into_font().color(&colour);
        let style = font.pos(Pos::new(side, VPos::Center));
        let at = self.pixels((x.into(), y.into()));
        self.area.draw(&Text::new(text.to_owned(), at, style))
    }

    /// Draws a line through these points.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    pub fn stroke(&self, points: &[(f64, f64)], colour: RGBColor, width: u32) -> Drawn<B> {
        let pixels: Vec<(i32, i32)> = points.iter().map(|&point| self.pixels(point)).collect();
        let width = (f64::from(width) * self.grain) as u32;
        let style = colour.stroke_width(width);
        self.area.draw(&PathElement::new(pixels, style))
    }

    /// Draws a thin line that is sharp at any scale.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    pub fn rule(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> Drawn<B> {
        let grain = self.grain as i32;
        let corner = |(x, y): (i32, i32)| (x * grain, y * grain);
        let (from, to) = (corner(from), corner(to));
        if grain == 1 {
            let style = colour.stroke_width(1);
            return self.area.draw(&PathElement::new(vec![from, to], style));
        }
        let opposite = (to.0 + grain - 1, to.1 + grain - 1);
        let line = Rectangle::new([from, opposite], colour.filled());
        self.area.draw(&line)
    }

    /// Draws a dot.
    ///
    /// # Errors
    ///
    /// When the backend fails.
    pub fn dot(&self, at: (i32, i32), radius: i32, colour: RGBColor) -> Drawn<B> {
        self.area.draw(&Circle::new(at, radius, colour.filled()))
    }
}
