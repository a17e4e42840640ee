//! Integers beyond 64 bits, kept as they arrived and converted to digits.

/// An integer that does not fit an `i64`, or that its sender encoded as if it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Big<'a> {
    /// Whether the integer is negative.
    pub negative: bool,
    /// The magnitude, least significant byte first.
    pub magnitude: &'a [u8],
}

/// Number of decimal digits that one division removes.
const DIGITS: usize = 9;
const DIVISOR: u64 = 1_000_000_000;

impl Big<'_> {
    /// Returns the value if it fits an `i64`.
    pub fn to_i64(self) -> Option<i64> {
        let used = self.magnitude.iter().rposition(|&byte| byte != 0);
        let bytes = &self.magnitude[..used.map_or(0, |last| last + 1)];
        if bytes.len() > 8 {
            return None;
        }
        let mut little = [0; 8];
        little[..bytes.len()].copy_from_slice(bytes);
        let magnitude = i128::from(u64::from_le_bytes(little));
        i64::try_from(if self.negative { -magnitude } else { magnitude }).ok()
    }

    /// Appends the decimal digits, after a sign if the integer is negative.
    pub(super) fn push_digits(self, out: &mut String) {
        let mut limbs: Vec<u32> = self
            .magnitude
            .chunks(4)
            .map(|bytes| {
                let mut little = [0; 4];
                little[..bytes.len()].copy_from_slice(bytes);
                u32::from_le_bytes(little)
            })
            .collect();
        let mut groups = Vec::new();
        loop {
            while limbs.last() == Some(&0) {
                limbs.pop();
            }
            if limbs.is_empty() {
                break;
            }
            groups.push(divide(&mut limbs));
        }
        let Some(first) = groups.pop() else {
            out.push('0');
            return;
        };
        if self.negative {
            out.push('-');
        }
        out.push_str(&first.to_string());
        for group in groups.iter().rev() {
            out.push_str(&format!("{group:0DIGITS$}"));
        }
    }
}

/// Divides by [`DIVISOR`] in place and returns the remainder.
fn divide(limbs: &mut [u32]) -> u64 {
    let mut remainder = 0;
    for limb in limbs.iter_mut().rev() {
        let dividend = remainder << 32 | u64::from(*limb);
        *limb = (dividend / DIVISOR) as u32;
        remainder = dividend % DIVISOR;
    }
    remainder
}
