//! Rendering of figures to SVG and PNG files.

use std::fs;
use std::path::Path;
use std::sync::Once;

use plotters::backend::BitMapBackend;
use plotters::style::{FontStyle, register_font};

use super::Figure;
use super::canvas::{self, Canvas, FONT};
use super::figure::{WIDTH, draw, height};
use machine::failure::{Context, Failure, Outcome};

/// Roboto (Apache-2.0), reduced to Latin letters.
static ROBOTO: &[u8] = include_bytes!("Roboto-Regular.ttf");

/// Pixels of a point in a PNG, so that it is sharp on high-resolution screens.
const PNG_SCALE: u32 = 2;

/// Factor by which a PNG is drawn larger before each square of pixels is averaged, for smooth
/// lines.
const SUPERSAMPLING: u32 = 2;

/// Writes a figure to a file, in the format of its extension.
///
/// # Errors
///
/// When the extension is neither `svg` nor `png`, drawing fails, or the file cannot be written.
pub fn write(figure: &Figure, path: &Path) -> Outcome<()> {
    let shown = path.display();
    let ending = path.extension().and_then(|ending| ending.to_str());
    let bytes = match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => svg(figure)?.into_bytes(),
        Some("png") => png(figure)?,
        _ => {
            return Err(Failure::new(format!(
                "{shown} should end in .svg or .png, which selects the format"
            )));
        }
    };
    fs::write(path, bytes).context(format_args!("{shown} cannot be written"))
}

/// Renders a figure as an SVG document.
///
/// # Errors
///
/// When the drawing library fails.
pub fn svg(figure: &Figure) -> Outcome<String> {
    canvas::svg((WIDTH, height(figure)), |canvas| draw(figure, canvas))
}

/// Renders a figure as a PNG file.
///
/// # Errors
///
/// When the drawing library or the encoder fails.
pub fn png(figure: &Figure) -> Outcome<Vec<u8>> {
    let (width, height) = (WIDTH * PNG_SCALE, height(figure) * PNG_SCALE);
    let size = (width * SUPERSAMPLING, height * SUPERSAMPLING);
    let mut large = vec![0; size.0 as usize * size.1 as usize * 3];
    let backend = BitMapBackend::with_buffer(&mut large, size);
    let grain = f64::from(PNG_SCALE * SUPERSAMPLING);
    Canvas::on(backend, grain, |canvas| draw(figure, canvas)).context("drawing a PNG")?;
    let pixels = downsample(&large, width as usize);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(&pixels))
        .context("writing a PNG")?;
    Ok(file)
}

/// Averages each square of [`SUPERSAMPLING`] pixels on a side. `width` is that of the result.
fn downsample(large: &[u8], width: usize) -> Vec<u8> {
    let side = SUPERSAMPLING as usize;
    let row = width * side * 3;
    let mut small = Vec::with_capacity(large.len() / side / side);
    for rows in large.chunks_exact(row * side) {
        for x in 0..width {
            for colour in 0..3 {
                let square = (0..side * side).map(|at| {
                    let (down, right) = (at / side, at % side);
                    u32::from(rows[down * row + (x * side + right) * 3 + colour])
                });
                small.push((square.sum::<u32>() / (SUPERSAMPLING * SUPERSAMPLING)) as u8);
            }
        }
    }
    small
}

/// Loads the built-in font, which measures text and draws it in a PNG. Must be called before
/// drawing.
pub(super) fn load_font() {
    static LOADED: Once = Once::new();
    LOADED.call_once(|| {
        let loaded = register_font(FONT, FontStyle::Normal, ROBOTO);
        debug_assert!(loaded.is_ok(), "the font in the program is a font");
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Line, Panel, Unit, XScale};

    fn figure() -> Figure {
        let line = |label: &str, factor: f64| {
            let points = (0..100).map(|x| (f64::from(x), f64::from(x) * factor));
            Line::whole(label, points.collect())
        };
        Figure {
            title: "A <title> & more".to_owned(),
            panels: vec![Panel {
                left: Axis {
                    title: "Memory".to_owned(),
                    unit: Unit::Bytes,
                    lines: vec![line("one", 1e6), line("two", 2e6)],
                },
                right: Some(Axis {
                    title: String::new(),
                    unit: Unit::BytesEach,
                    lines: vec![line("one", 1.0)],
                }),
            }],
            across: XScale::Time,
        }
    }

    #[test]
    fn an_svg_has_titles_units_and_legend() {
        let text = svg(&figure()).unwrap();
        for words in [
            "A &lt;title&gt; &amp; more",
            "Memory, MB",
            "bytes a connection (dashed)",
            "one",
            "two",
            "200",
            "time since the start, s",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }

    #[test]
    fn a_png_has_its_size_and_content() {
        let file = png(&figure()).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(info.width, WIDTH * PNG_SCALE);
        let inked = pixels
            .chunks(3)
            .filter(|pixel| pixel != &[255, 255, 255])
            .count();
        assert!(inked > 10_000, "{inked}");
    }

    #[test]
    fn an_unknown_extension_is_refused() {
        let error = write(&figure(), Path::new("/tmp/x.gif")).unwrap_err();
        assert!(error.to_string().contains("should end in .svg or .png"));
    }
}
