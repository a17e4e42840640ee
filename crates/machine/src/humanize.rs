//! Formatting of numbers for people.

/// Formats a size with at most one decimal: `64 KiB`, `1.4 KiB`, `900 bytes`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (factor, unit) in UNITS {
        if bytes >= factor {
            // In 128 bits, as a value that means "no limit" may be near `u64::MAX`.
            let tenths = u128::from(bytes) * 10 / u128::from(factor);
            return match tenths % 10 {
                0 => format!("{} {unit}", tenths / 10),
                tenth => format!("{}.{tenth} {unit}", tenths / 10),
            };
        }
    }
    format!("{bytes} bytes")
}

/// Formats a count with thousands separators: `1,000,000`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_at_most_one_decimal() {
        assert_eq!(size(65_536), "64 KiB");
        assert_eq!(size(1_610_612_736), "1.5 GiB");
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(u64::MAX), "17179869183.9 GiB");
        assert_eq!(count(1_000_000), "1,000,000");
        assert_eq!(count(999), "999");
        assert_eq!(count(20_000), "20,000");
    }
}
