//! The effective configuration as a file for `--config` (`--print-config`).

use std::fmt::Write;

use toml::Value;

use super::Config;
use super::fields::Shape;
use super::keys::{GROUPS, Key, Otherwise};
use super::layers::{Layers, Source};

/// Returns every setting with its source, in groups. Settings without a value, and secrets, are in
/// comments.
pub(crate) fn print(layers: &Layers, config: &Config) -> String {
    let width = Key::all()
        .map(|key| line(key, layers, config).0.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (number, group) in GROUPS.iter().enumerate() {
        let gap = if number == 0 { "" } else { "\n" };
        let _ = writeln!(text, "{gap}# {}", group.heading);
        for key in group.keys {
            let (setting, origin) = line(key, layers, config);
            let _ = writeln!(text, "{setting:width$}  # {origin}");
        }
    }
    text
}

fn line(key: &Key, layers: &Layers, config: &Config) -> (String, String) {
    let name = key.name;
    if let Some((source, texts)) = layers.get(key) {
        let origin = match source {
            Source::File(path) => format!("file {}", path.display()),
            Source::Environment => format!("environment {}", key.variable()),
            Source::Flag => format!("flag --{name}"),
        };
        let setting = if key.secret {
            format!("# {name} = \"********\"")
        } else {
            format!("{name} = {}", value(key.shape, texts))
        };
        return (setting, origin);
    }
    match key.default {
        Otherwise::Is(_) | Otherwise::OfField => {
            let texts = Vec::from_iter(key.default_text());
            (
                format!("{name} = {}", value(key.shape, &texts)),
                "default".to_owned(),
            )
        }
        Otherwise::Found(what) => (
            match name {
                "buffer-bytes" => format!("{name} = \"{}\"", config.buffers.bytes),
                _ => format!("{name} = {}", config.settings.workers),
            },
            format!("default: {what}"),
        ),
        Otherwise::Unset(what) => (format!("# {name} ="), format!("not set: {what}")),
    }
}

/// Returns a value in TOML. The value is valid.
fn value(shape: Shape, texts: &[String]) -> String {
    let text = texts.last().map_or("", String::as_str);
    match shape {
        Shape::Switch => super::switch(text).is_ok_and(|on| on).to_string(),
        Shape::Number => text.trim_start_matches(['+', '0']).to_owned(),
        Shape::Text(_) | Shape::Path | Shape::File => Value::from(text).to_string(),
        Shape::List(_) | Shape::Files => Value::from(texts.to_vec()).to_string(),
    }
}
