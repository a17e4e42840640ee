//! Modules of the binary that must not use some crates.

use crate::Finding;
use crate::files::TextFile;

/// Prefixes of the paths of modules, and the crates that these must not name.
const RULES: &[(&str, &[&str])] = &[
    // The server must not contain the tools that measure it.
    ("crates/encke/src/serve", &["bench", "client", "load"]),
    ("crates/encke/src/proxy", &["bench", "client", "load"]),
    ("crates/encke/src/hello", &["bench", "client", "load"]),
];

/// Returns each line of `file` that names a crate which its module must not use.
pub fn check(file: &TextFile) -> Vec<Finding> {
    let rules = RULES.iter().filter(|(path, _)| file.path.starts_with(path));
    let forbidden: Vec<&str> = rules
        .flat_map(|(_, crates)| crates.iter().copied())
        .collect();
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let code = line.split("//").next().unwrap_or_default();
        for name in &forbidden {
            if names(code, name) {
                let message = format!("this module must not use `{name}`");
                findings.push(Finding::at_line(&file.path, number, message));
            }
        }
    }
    findings
}

/// Returns whether `code` has a path that begins with `name`.
fn names(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || matches!(before, '_' | ':'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let (path, text) = (path.to_owned(), text.to_owned());
        check(&TextFile { path, text }).len()
    }

    #[test]
    fn serve_uses_no_tool() {
        let serve = "crates/encke/src/serve/signals.rs";
        assert_eq!(found(serve, "use load::drive;\n"), 1);
        assert_eq!(found(serve, "let it = bench::child::clean_up();\n"), 1);
        assert_eq!(
            found(
                serve,
                "use machine::doctor;\nuse crate::load::it; // load::\n"
            ),
            0
        );
        assert_eq!(found("crates/encke/src/flood.rs", "use load::flood;\n"), 0);
    }
}
