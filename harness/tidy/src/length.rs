//! Length of files.

use crate::Finding;
use crate::files::TextFile;

/// Most lines of a source file before its tests. A longer file has more than one purpose, and is to
/// be split.
pub const LINES_MAX: usize = 450;

/// Files that may be longer, with the reason.
const EXCEPTIONS: &[&str] = &[
    // It lists all benchmarks and their options.
    "lab/encke-lab/src/compare.rs",
];

/// Returns a finding if `file` has more than [`LINES_MAX`] lines. Tests and simulations do not
/// count.
pub fn check(file: &TextFile) -> Option<Finding> {
    if is_test(&file.path) || EXCEPTIONS.contains(&file.path.as_str()) {
        return None;
    }
    let lines = file.text.lines();
    let count = lines.take_while(|&line| line != "#[cfg(test)]").count();
    (count > LINES_MAX).then(|| {
        let message = format!("{count} lines of code; split it, {LINES_MAX} are allowed");
        Finding::new(&file.path, message)
    })
}

fn is_test(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.any(|part| matches!(part, "tests" | "sim" | "examples" | "tests.rs" | "sim.rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Option<Finding> {
        let (path, text) = (path.to_owned(), text.to_owned());
        check(&TextFile { path, text })
    }

    #[test]
    fn code_is_counted_up_to_its_tests() {
        let code = "\n".repeat(LINES_MAX);
        assert_eq!(found("a/src/b.rs", &code), None);
        assert_eq!(
            found("a/src/b.rs", &format!("{code}#[cfg(test)]\nmod t;\n")),
            None
        );
        assert!(found("a/src/b.rs", &format!("{code}\n")).is_some());
        assert_eq!(found("a/src/b/tests.rs", &format!("{code}\n")), None);
    }
}
