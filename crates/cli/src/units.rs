//! Durations and sizes in arguments and in the configuration.
//!
//! Owns the syntax: a number and a unit. A size without a unit is in bytes. A duration without a
//! unit is refused, because it could be in seconds or milliseconds.

use std::time::Duration;

pub use machine::humanize::{count as human_count, size as human_size};

/// Parses a duration such as `25s`, `500ms`, `1m`, `1.5h` or `0`.
///
/// # Errors
///
/// When the text is not a duration. The error is a sentence.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a duration needs a number and a unit, like 500ms, 25s, 1m or 1h".to_owned();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| "this is too long".to_owned())
}

/// Parses a size such as `65536`, `64KiB`, `64KB`, `1MiB` or `1GiB`, in bytes.
///
/// # Errors
///
/// When the text is not a size. The error is a sentence.
pub fn size(text: &str) -> Result<usize, String> {
    let wrong = || {
        "expected a number of bytes, or a number and a unit, like 65536, 64KiB or 1MiB".to_owned()
    };
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let bytes = number * factor as f64;
    if bytes.fract() != 0.0 {
        return Err("this is not a whole number of bytes".to_owned());
    }
    // A float is exact up to 2^53, which is more bytes than any machine has.
    if bytes > (1_u64 << 53) as f64 {
        return Err("this is more than any machine has".to_owned());
    }
    Ok(bytes as usize)
}

/// Splits a text into a number that is not negative and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// Returns the two largest units of an age: `3d4h`, `5m10s`, `7s`.
pub fn age(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{seconds}s"),
        (0, _, _) => format!("{hours}h{minutes}m"),
        _ => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("25s"), Ok(Duration::from_secs(25)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("10 s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in [
            "", "25", "s", "-1s", "1x", "1.2.3s", "25S", "inf", "nans", "1e9s",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(duration("99999999999999999999d").is_err());
    }

    #[test]
    fn sizes_count_bytes() {
        assert_eq!(size("65536"), Ok(65_536));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("64kib"), Ok(65_536));
        assert_eq!(size("64 KB"), Ok(64_000));
        assert_eq!(size("1.5MiB"), Ok(1_572_864));
        assert_eq!(size("0"), Ok(0));
        for wrong in [
            "",
            "KiB",
            "-1",
            "1.5",
            "64Kb/s",
            "1TiBs",
            "9999999999999999GiB",
        ] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_age_has_its_two_largest_units() {
        assert_eq!(age(7.9), "7s");
        assert_eq!(age(310.0), "5m10s");
        assert_eq!(age(90_000.0 + 3_600.0 * 50.0), "3d3h");
    }
}
