//! Comments that contain a line number, which is wrong after the next change above that line.

use crate::Finding;
use crate::files::TextFile;

/// Returns a finding for each comment of `file` that contains the number of a line of source.
pub fn check(file: &TextFile) -> Vec<Finding> {
    let lines = (1..).zip(file.text.lines());
    let named = lines.filter(|(_, line)| comment(line).is_some_and(names_a_line));
    let message = "the comment names a line by its number: name the function or the type";
    named
        .map(|(number, _)| Finding::at_line(&file.path, number, message))
        .collect()
}

/// Returns the comment of a line. What looks like one within a string is none.
fn comment(line: &str) -> Option<&str> {
    let mut slashes = line.match_indices("//").map(|(at, _)| at);
    let quotes = |at| line[..at].replace("\\\"", "").matches('"').count();
    let begin = slashes.find(|&at| quotes(at).is_multiple_of(2));
    begin.map(|at| &line[at..])
}

fn names_a_line(comment: &str) -> bool {
    let is_numbered = |after: &str| after.starts_with(|first: char| first.is_ascii_digit());
    let in_file = comment.split(".rs:").skip(1).any(is_numbered);
    let by_word = ["line ", "lines ", "Line ", "Lines "].iter().any(|word| {
        comment.match_indices(word).any(|(at, _)| {
            !comment[..at].ends_with(char::is_alphanumeric)
                && is_numbered(&comment[at + word.len()..])
        })
    });
    in_file || by_word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        let (path, text) = ("a.rs".to_owned(), line.to_owned());
        check(&TextFile { path, text }).len()
    }

    #[test]
    fn comments_name_no_line() {
        assert_eq!(found("let a = 1; // see worker.rs:12"), 1);
        assert_eq!(found("    /// As in line 40 of `egress`."), 1);
        assert_eq!(found("//! Lines 3 to 9 of the loop."), 1);
        assert_eq!(found("// online 7, see worker.rs: 12 parts"), 0);
        assert_eq!(found("let message = \"line 12: no such id\";"), 0);
        assert_eq!(found("let url = \"http://a/line 12\";"), 0);
    }
}
