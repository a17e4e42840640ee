//! The epoch: the name of this run of the program, in event ids and in statistics.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

/// Digits of the random part, which has 1.7 million values and tells starts within one second
/// apart.
const RANDOM_DIGITS: usize = 4;

/// Returns a name that no other run has: the time in seconds and four random digits, in base 36.
pub fn of_this_run() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Each state has random keys; they are the only source of randomness of the standard library.
    let random = RandomState::new().build_hasher().finish();
    name(now.as_secs(), random)
}

fn name(seconds: u64, random: u64) -> String {
    let mut name = base36(seconds);
    let random = base36(random % 36_u64.pow(RANDOM_DIGITS as u32));
    name.extend(std::iter::repeat_n('0', RANDOM_DIGITS - random.len()));
    name.push_str(&random);
    name
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    while digits.is_empty() || number > 0 {
        digits.push(char::from_digit((number % 36) as u32, 36).expect("below 36"));
        number /= 36;
    }
    digits.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_length_and_sort_by_start() {
        assert_eq!(name(0, 0), "00000");
        assert_eq!(name(1_800_000_000, 35), "tro8w0000z");
        assert!(name(1_800_000_000, u64::MAX) < name(1_800_000_001, 0));
        assert_ne!(of_this_run(), of_this_run());
    }
}
