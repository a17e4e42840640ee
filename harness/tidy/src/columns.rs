//! Width of lines.

use crate::Finding;
use crate::files::TextFile;

/// Most columns of a line, as in `rustfmt.toml`. Rustfmt does not break comments, long strings and
/// macros.
pub const COLUMNS_MAX: usize = 100;

/// Returns a finding for each line of `file` that is wider than [`COLUMNS_MAX`]. A comment of one
/// long word, such as a URL, is permitted because it cannot be broken.
pub fn check(file: &TextFile) -> Vec<Finding> {
    let lines = (1..).zip(file.text.lines());
    let wide = lines.filter_map(|(number, line)| {
        let columns = line.chars().count();
        let is_wide = columns > COLUMNS_MAX && !is_one_word(line);
        is_wide.then(|| {
            let message = format!("{columns} columns; break it at {COLUMNS_MAX}");
            Finding::at_line(&file.path, number, message)
        })
    });
    wide.collect()
}

fn is_one_word(line: &str) -> bool {
    let comment = line.trim_start().strip_prefix("//");
    let text = comment.map(|comment| comment.trim_start_matches(['/', '!']).trim());
    text.is_some_and(|text| !text.contains(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        let (path, text) = ("a.rs".to_owned(), line.to_owned());
        check(&TextFile { path, text }).len()
    }

    #[test]
    fn code_and_comments_end_at_100_columns() {
        assert_eq!(found(&"é".repeat(100)), 0);
        assert_eq!(found(&"é".repeat(101)), 1);
        assert_eq!(found(&format!("    // {}", "word ".repeat(19))), 1);
        assert_eq!(found(&format!("//! https://{}", "a".repeat(100))), 0);
    }
}
