//! Floats with the fewest digits that read back as the same float, in the shorter notation.

/// Above this value not every integer is a float, and plain digits would suggest a precision that
/// does not exist.
const PLAIN_BELOW: f64 = 9_007_199_254_740_992.0;

pub(super) fn push(float: f64, out: &mut String) {
    // The standard library also produces the fewest digits, but of two equally near candidates it
    // takes the larger one and Erlang the even one.
    let mut buffer = zmij::Buffer::new();
    let (digits, exponent) = parse(buffer.format_finite(float.abs()));
    let scientific = format!("{}e{exponent}", with_point(&digits, 1));
    let plain = plain(&digits, exponent);
    if float.is_sign_negative() {
        out.push('-');
    }
    if float.abs() < PLAIN_BELOW && plain.len() <= scientific.len() {
        out.push_str(&plain);
    } else {
        out.push_str(&scientific);
    }
}

/// Returns the digits without surrounding zeros, and the power of ten of the first digit.
fn parse(text: &str) -> (String, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let digits = all.trim_matches('0');
    if digits.is_empty() {
        return ("0".to_owned(), 0);
    }
    let exponent: i32 = exponent.parse().expect("written by a formatter");
    let first = exponent + whole.len() as i32 - 1 - leading as i32;
    (digits.to_owned(), first)
}

fn plain(digits: &str, exponent: i32) -> String {
    match usize::try_from(exponent) {
        Ok(exponent) => with_point(digits, exponent + 1),
        Err(_) => format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize)),
    }
}

/// Inserts a point after `whole` digits, with at least one digit after it.
fn with_point(digits: &str, whole: usize) -> String {
    match digits.split_at_checked(whole) {
        Some((whole, fraction)) if !fraction.is_empty() => format!("{whole}.{fraction}"),
        _ => format!("{digits:0<whole$}.0"),
    }
}
