//! SVG picture of a degree distribution: the share of users with at least a given number of
//! friends, on logarithmic scales, where a power law is a straight line.

use machine::failure::Outcome;
use machine::humanize;
use recorder::plot::canvas::{self, COLOURS, GREY, GRID, HPos, INK, RGBColor, SvgCanvas, SvgDrawn};

use super::Report;
use super::degrees::Distribution;

/// Size of the picture and edges of the plot, in pixels.
const SIZE: (u32, u32) = (860, 600);
const LEFT: f64 = 90.0;
const RIGHT: f64 = 830.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 535.0;

const TEXT_SIZE: f64 = 15.0;
const TITLE_SIZE: f64 = 20.0;

const DOTS: RGBColor = COLOURS[0];
const LAW: RGBColor = COLOURS[1];

/// Dots closer than this to the last one, in pixels, are left out.
const APART: i32 = 2;

/// Draws the degree distribution of a graph as an SVG document.
///
/// # Errors
///
/// When the drawing library fails.
pub fn svg(report: &Report) -> Outcome<String> {
    canvas::svg(SIZE, |canvas| draw(report, canvas))
}

fn draw<'a>(report: &Report, canvas: &SvgCanvas<'a>) -> SvgDrawn<'a> {
    let degrees = &report.degrees;
    let users = f64::from(report.made);
    let across = Scale::over(degrees.min.max(1).into(), degrees.max.into(), LEFT, RIGHT);
    let up = Scale::over(1.0 / users, 1.0, BOTTOM, TOP);
    let (left, right, top, bottom) = (LEFT as i32, RIGHT as i32, TOP as i32, BOTTOM as i32);
    let write = |words: &str, at, colour, side| canvas.text(words, at, TEXT_SIZE, colour, side);
    let title = format!(
        "{} users, {} friendships",
        humanize::count(report.made.into()),
        humanize::count(report.edges)
    );
    canvas.text(&title, (left - 60, 24), TITLE_SIZE, INK, HPos::Left)?;
    for tick in across.ticks() {
        let x = across.place(tick);
        canvas.rule((x, top), (x, bottom), GRID)?;
        let words = humanize::count(tick.round() as u64);
        write(&words, (x, bottom + 16), GREY, HPos::Center)?;
    }
    for tick in up.ticks().filter(|tick| is_power_of_ten(*tick)) {
        let y = up.place(tick);
        canvas.rule((left, y), (right, y), GRID)?;
        write(&share(tick), (left - 8, y), GREY, HPos::Right)?;
    }
    let above = "users with at least this many";
    write(
        "friends",
        ((left + right) / 2, bottom + 42),
        INK,
        HPos::Center,
    )?;
    write(above, (left - 60, top - 18), INK, HPos::Left)?;
    dots(degrees, users, (&across, &up), canvas)?;
    law(degrees, users, (&across, &up), canvas)
}

/// Draws the measured distribution.
fn dots<'a>(
    degrees: &Distribution,
    users: f64,
    (across, up): (&Scale, &Scale),
    canvas: &SvgCanvas<'a>,
) -> SvgDrawn<'a> {
    let mut last = (i32::MIN / 2, i32::MIN / 2);
    for &(degree, at_least) in &degrees.at_least {
        if degree == 0 {
            continue;
        }
        let at = (
            across.place(degree.into()),
            up.place(at_least as f64 / users),
        );
        if (at.0 - last.0).abs().max((at.1 - last.1).abs()) >= APART {
            canvas.dot(at, 2, DOTS)?;
            last = at;
        }
    }
    Ok(())
}

/// Draws the fitted power law.
fn law<'a>(
    degrees: &Distribution,
    users: f64,
    (across, up): (&Scale, &Scale),
    canvas: &SvgCanvas<'a>,
) -> SvgDrawn<'a> {
    let Some(law) = degrees.power_law else {
        return Ok(());
    };
    let (from, tail) = (f64::from(law.from), law.users as f64 / users);
    let at = |degree: f64| {
        let share = tail * ((degree - 0.5) / (from - 0.5)).powf(1.0 - law.exponent);
        (across.place(degree).into(), up.place(share).into())
    };
    // The line ends where it predicts less than one user.
    let last = (from - 0.5) * (tail * users).powf(1.0 / (law.exponent - 1.0)) + 0.5;
    let ends = [at(from), at(last.min(degrees.max.into()))];
    canvas.stroke(&ends, LAW, 2)?;
    let words = format!(
        "power law fitted from {} friends on: exponent {:.2} ± {:.2}",
        law.from, law.exponent, law.error
    );
    let below = (RIGHT as i32 - 8, TOP as i32 + 16);
    canvas.text(&words, below, TEXT_SIZE, LAW, HPos::Right)
}

/// A logarithmic scale.
#[derive(Debug)]
struct Scale {
    /// Decimal logarithms of the ends.
    low: f64,
    high: f64,
    /// Positions of the ends in pixels.
    first: f64,
    last: f64,
}

impl Scale {
    /// Creates a scale over `least` to `most`, extended on both sides to 1, 2 or 5 times a power of
    /// ten.
    fn over(least: f64, most: f64, first: f64, last: f64) -> Self {
        let round = |value: f64| {
            let power = 10f64.powf(value.log10().floor());
            [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power)
        };
        // The tolerances allow for rounding in `log10` and `powf`.
        let low = round(least)
            .into_iter()
            .rfind(|tick| *tick <= least * (1.0 + 1e-9));
        let high = round(most)
            .into_iter()
            .find(|tick| *tick >= most * (1.0 - 1e-9));
        let (low, high) = (low.unwrap_or(least), high.unwrap_or(most));
        Self {
            low: low.log10(),
            // A scale must not have length zero.
            high: high.log10().max(low.log10() + 0.1),
            first,
            last,
        }
    }

    fn place(&self, value: f64) -> i32 {
        let share = (value.log10() - self.low) / (self.high - self.low);
        (self.first + share * (self.last - self.first)).round() as i32
    }

    /// Iterates over the values within that are 1, 2 or 5 times a power of ten.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        let powers = self.low.floor() as i32..=self.high.ceil() as i32;
        powers
            .flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(power)))
            .filter(|tick| (self.low - 1e-9..=self.high + 1e-9).contains(&tick.log10()))
    }
}

fn is_power_of_ten(value: f64) -> bool {
    (value.log10() - value.log10().round()).abs() < 1e-9
}

/// Formats a power of ten as a percentage: `10 %`, `0.001 %`.
fn share(value: f64) -> String {
    let decimals = (-(value * 100.0).log10().round()).max(0.0) as usize;
    format!("{:.decimals$} %", value * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::friends::{End, Options, write};

    #[test]
    fn a_picture_shows_the_degrees_and_the_law() {
        let options = Options {
            users: 20_000,
            degree: 5,
            seed: 1,
        };
        let Ok(End::Written(report)) = write(options, None, &mut std::io::sink(), |_| true) else {
            panic!("a sink takes all");
        };
        let text = svg(&report).unwrap();
        for words in [
            "20,000 users, 99,985 friendships",
            "users with at least this many",
            "power law fitted from 20 friends on: exponent ",
            "100 %",
            "0.01 %",
            "\n200\n",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
        let dots = text.matches("<circle").count();
        assert!((50..2_000).contains(&dots), "{dots}");
    }

    #[test]
    fn scales_have_ticks_at_both_ends() {
        let ticks = |least, most| {
            let scale = Scale::over(least, most, 0.0, 100.0);
            assert!(scale.place(least) >= 0 && scale.place(most) <= 100);
            scale.ticks().collect::<Vec<f64>>()
        };
        assert_eq!(ticks(3.0, 40.0), [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(ticks(1.0, 1.0), [1.0]);
        assert_eq!(ticks(0.001, 1.0).len(), 10);
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!([1.0, 0.1, 1e-6].map(share), ["100 %", "10 %", "0.0001 %"]);
    }
}
