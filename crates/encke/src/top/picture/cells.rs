//! Texts of cells: ids, shares and numbers.

use client::top::view::Rates;
use serde_json::Value;

/// Returns an id or another value without the quotes of JSON. Control characters, which ids may
/// contain, are escaped for the terminal.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text
            .chars()
            .map(|character| match character.is_control() {
                true => character.escape_default().to_string(),
                false => character.to_string(),
            })
            .collect(),
        other => other.to_string(),
    }
}

pub(super) fn at(rates: &Rates, label: &str) -> f64 {
    rates.get(label).copied().unwrap_or(0.0)
}

/// Returns a share of the time: `0.4%`, `37%`.
pub(super) fn share(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        ..0.05 => "0%".to_owned(),
        ..9.95 => format!("{percent:.1}%"),
        _ => format!("{percent:.0}%"),
    }
}

/// Returns a number in six characters at most: `0.3`, `9999`, `12.3k`, `4.56M`.
pub(super) fn short(number: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    if number == 0.0 {
        return "0".to_owned();
    }
    if number < 9.95 && number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    if number < 9_999.5 {
        return format!("{number:.0}");
    }
    // Rounding must not give a thousand of a unit, such as `1000k`.
    let (factor, unit) = UNITS
        .into_iter()
        .find(|(factor, _)| number >= 0.9995 * factor)
        .unwrap_or((1.0, ""));
    let scaled = number / factor;
    match scaled {
        ..9.995 => format!("{scaled:.2}{unit}"),
        ..99.95 => format!("{scaled:.1}{unit}"),
        _ => format!("{scaled:.0}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (3.0, "3"),
            (9.94, "9.9"),
            (9.96, "10"),
            (9_999.0, "9999"),
            (9_999.6, "10.0k"),
            (12_345.0, "12.3k"),
            (999_400.0, "999k"),
            (999_900.0, "1.00M"),
            (4_560_000.0, "4.56M"),
            (12e9, "12.0G"),
        ] {
            assert_eq!(short(number), text);
        }
        assert_eq!(share(0.004), "0.4%");
        assert_eq!(share(0.0), "0%");
        assert_eq!(share(0.0996), "10%");
        assert_eq!(share(1.0), "100%");
    }

    #[test]
    fn an_id_cannot_move_the_cursor() {
        assert_eq!(text(&Value::from("a\x1b[2Jb")), "a\\u{1b}[2Jb");
        assert_eq!(text(&Value::from("märz")), "märz");
        assert_eq!(text(&Value::from(7)), "7");
    }
}
