//! `lib.rs` as a table of contents: one line of documentation for each module.
//!
//! Also: a module's file is `foo.rs` beside `foo/`, never `foo/mod.rs`.

use crate::Finding;
use crate::files::TextFile;

/// Returns each module that a `lib.rs` lists without a line of documentation, or with more than
/// one; and the file itself if it is a `mod.rs`. A module `tests` needs no line.
pub fn check(file: &TextFile) -> Vec<Finding> {
    if file.path.ends_with("/mod.rs") {
        return vec![Finding::new(
            &file.path,
            "a module is `foo.rs` beside `foo/`, not `foo/mod.rs`",
        )];
    }
    if !file.path.ends_with("/lib.rs") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut docs = 0;
    let mut in_attribute = false;
    for (number, line) in (1..).zip(file.text.lines()) {
        if in_attribute {
            in_attribute = line != ")]";
        } else if line.starts_with("///") {
            docs += 1;
        } else if line.starts_with("#[") {
            in_attribute = !line.ends_with(']');
        } else {
            let module = module(line).filter(|&name| name != "tests");
            if let Some(name) = module.filter(|_| docs != 1) {
                let message = format!("`{name}` needs one line of `///` above it, and has {docs}");
                findings.push(Finding::at_line(&file.path, number, message));
            }
            docs = 0;
        }
    }
    findings
}

/// Returns the name of the module that `line` declares.
fn module(line: &str) -> Option<&str> {
    let declaration = line.strip_suffix(';')?;
    let declaration = declaration
        .strip_prefix("pub(crate) ")
        .or_else(|| declaration.strip_prefix("pub "))
        .unwrap_or(declaration);
    declaration.strip_prefix("mod ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let file = TextFile {
            path: "a/lib.rs".to_owned(),
            text: text.to_owned(),
        };
        check(&file).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn each_module_has_one_line() {
        let good = "/// A.\nmod a;\n\n/// B.\n#[expect(\n    a,\n)]\n\
                    pub mod b;\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(found(good), [""; 0]);
        assert_eq!(
            found("mod a;\n"),
            ["a/lib.rs:1: `a` needs one line of `///` above it, and has 0"]
        );
        assert_eq!(
            found("// A.\npub mod a;\n"),
            ["a/lib.rs:2: `a` needs one line of `///` above it, and has 0"]
        );
        assert_eq!(
            found("/// A,\n/// and more.\nmod a;\nmod b;\n"),
            [
                "a/lib.rs:3: `a` needs one line of `///` above it, and has 2",
                "a/lib.rs:4: `b` needs one line of `///` above it, and has 0"
            ]
        );
    }

    #[test]
    fn there_is_no_mod_rs() {
        let path = "crates/a/src/b/mod.rs".to_owned();
        let text = String::new();
        assert_eq!(check(&TextFile { path, text }).len(), 1);
    }
}
