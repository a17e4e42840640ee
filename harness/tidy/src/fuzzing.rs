//! Fuzz targets: each one must be built, have seed inputs and be documented, and each crash must
//! have a regression test.

use crate::Finding;
use crate::files::TextFile;

/// Path of the document that lists the targets.
pub const DOCUMENT: &str = "docs/RELIABILITY.md";

/// Path of the manifest of the targets.
pub const MANIFEST: &str = "harness/fuzz/Cargo.toml";

/// Most bytes of all corpora in git, which every clone has to fetch.
const CORPORA_BYTES_MAX: u64 = 400 * 1024;

/// Files about fuzzing in the repository. Lists have paths from the top of the repository, and
/// sizes in bytes.
#[derive(Debug)]
pub struct Fuzzing<'a> {
    /// Content of [`MANIFEST`].
    pub manifest: &'a str,
    /// Content of [`DOCUMENT`].
    pub document: &'a str,
    /// Sources of the targets.
    pub targets: Vec<(String, u64)>,
    /// Inputs written by hand.
    pub seeds: Vec<(String, u64)>,
    /// Inputs that fuzzing has found.
    pub corpora: Vec<(String, u64)>,
    /// Inputs that once made a target fail.
    pub crashes: Vec<(String, u64)>,
    /// Sources of the crates.
    pub sources: &'a [TextFile],
}

/// Returns a finding for each target that lacks something, each crash without a test, and for
/// corpora that are too large.
pub fn check(fuzzing: &Fuzzing<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let targets: Vec<&str> = fuzzing.targets.iter().map(|(path, _)| stem(path)).collect();
    for target in &targets {
        let mut demand = |is_met: bool, path: &str, what: &str| {
            if !is_met {
                findings.push(Finding::new(path, format!("{target} {what}")));
            }
        };
        let bin = format!("path = \"fuzz_targets/{target}.rs\"");
        demand(fuzzing.manifest.contains(&bin), MANIFEST, "is not built");
        let row = format!("`{target}`");
        demand(fuzzing.document.contains(&row), DOCUMENT, "is not listed");
        let seeds = format!("harness/fuzz/seeds/{target}");
        let has_seeds = fuzzing
            .seeds
            .iter()
            .any(|(path, _)| directory(path) == seeds);
        demand(has_seeds, &seeds, "has no input to begin with: write one");
        let corpus = format!("harness/fuzz/corpora/{target}.tar.xz");
        let has_corpus = fuzzing.corpora.iter().any(|(path, _)| *path == corpus);
        demand(
            has_corpus,
            &corpus,
            "has no corpus: run harness/fuzz/minimise",
        );
    }
    for (path, _) in &fuzzing.corpora {
        let target = stem(path).trim_end_matches(".tar");
        if !targets.contains(&target) {
            findings.push(Finding::new(
                path,
                "is a corpus without a target: remove it",
            ));
        }
    }
    let bytes: u64 = fuzzing.corpora.iter().map(|(_, bytes)| bytes).sum();
    if bytes > CORPORA_BYTES_MAX {
        let what =
            format!("{bytes} bytes, more than {CORPORA_BYTES_MAX}: see harness/fuzz/minimise");
        findings.push(Finding::new("harness/fuzz/corpora", what));
    }
    for (path, _) in &fuzzing.crashes {
        if !targets.contains(&stem(directory(path))) {
            findings.push(Finding::new(path, "has no target"));
        }
        if !fuzzing
            .sources
            .iter()
            .any(|source| source.text.contains(path))
        {
            let what =
                "no test names it: write one that tells what happened (harness/fuzz/README.md)";
            findings.push(Finding::new(path, what));
        }
    }
    findings
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Returns the name of a file without its directory and its ending.
fn stem(path: &str) -> &str {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> Vec<(String, u64)> {
        paths.iter().map(|&path| (path.to_owned(), 10)).collect()
    }

    #[test]
    fn a_target_is_built_listed_and_has_inputs() {
        let all = Fuzzing {
            manifest: "path = \"fuzz_targets/a.rs\"",
            document: "| `a` | bytes |",
            targets: files(&["harness/fuzz/fuzz_targets/a.rs"]),
            seeds: files(&["harness/fuzz/seeds/a/one"]),
            corpora: files(&["harness/fuzz/corpora/a.tar.xz"]),
            crashes: Vec::new(),
            sources: &[],
        };
        assert!(check(&all).is_empty(), "{:?}", check(&all));
        let none = Fuzzing {
            manifest: "",
            document: "",
            seeds: files(&["harness/fuzz/seeds/ab/one"]),
            corpora: files(&["harness/fuzz/corpora/ab.tar.xz"]),
            ..all
        };
        let findings: Vec<_> = check(&none).iter().map(ToString::to_string).collect();
        assert_eq!(findings.len(), 5, "{findings:?}");
        let large = Fuzzing {
            corpora: vec![(
                "harness/fuzz/corpora/a.tar.xz".to_owned(),
                CORPORA_BYTES_MAX + 1,
            )],
            targets: Vec::new(),
            ..none
        };
        assert_eq!(check(&large).len(), 2);
    }

    #[test]
    fn a_crash_has_a_test_that_names_it() {
        let sources = [TextFile {
            path: "crates/a/src/tests.rs".to_owned(),
            text: "// It ended: harness/fuzz/crashes/a/deep.".to_owned(),
        }];
        let crashes = |paths: &[&str]| {
            let fuzzing = Fuzzing {
                manifest: "path = \"fuzz_targets/a.rs\"",
                document: "`a`",
                targets: files(&["harness/fuzz/fuzz_targets/a.rs"]),
                seeds: files(&["harness/fuzz/seeds/a/one"]),
                corpora: files(&["harness/fuzz/corpora/a.tar.xz"]),
                crashes: files(paths),
                sources: &sources,
            };
            check(&fuzzing).len()
        };
        assert_eq!(crashes(&["harness/fuzz/crashes/a/deep"]), 0);
        assert_eq!(crashes(&["harness/fuzz/crashes/a/other"]), 1);
        // A crash of a removed target, and without a test.
        assert_eq!(crashes(&["harness/fuzz/crashes/b/other"]), 2);
    }
}
