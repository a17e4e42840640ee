//! `docs/DEPENDENCIES.md`: a note for each library that a crate names, and for the version in use.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::Finding;

/// Path of the document.
pub const DOCUMENT: &str = "docs/DEPENDENCIES.md";

#[derive(Deserialize)]
struct Manifest {
    workspace: Workspace,
}

#[derive(Deserialize)]
struct Workspace {
    dependencies: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

/// Returns a finding for each library of the workspace's manifest that has no note, or one for a
/// version that the lock file does not have; and for each note without a library.
///
/// # Errors
///
/// When the manifest or the lock file is not what cargo reads.
pub fn check(manifest: &str, lock: &str, document: &str) -> Result<Vec<Finding>, toml::de::Error> {
    let Manifest { workspace } = toml::from_str(manifest)?;
    let Lock { package } = toml::from_str(lock)?;
    let locked: BTreeSet<_> = package.iter().map(|it| (&*it.name, &*it.version)).collect();
    let noted: BTreeMap<_, _> = document.lines().filter_map(note).collect();
    let libraries = workspace.dependencies.iter();
    let libraries: BTreeSet<_> = libraries
        .filter(|(_, value)| value.get("path").is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    let missing = libraries.iter().filter_map(|&name| match noted.get(name) {
        None => Some(format!("{name} has no note: read it, and add its row")),
        Some(&version) if !locked.contains(&(name, version)) => Some(format!(
            "the note on {name} is about {version}, which Cargo.lock does not have: look at what \
             has changed since, and bring the row up to date"
        )),
        Some(_) => None,
    });
    let needless = noted.keys().filter(|name| !libraries.contains(*name));
    let needless = needless.map(|name| format!("{name} is not in Cargo.toml: remove its row"));
    let findings = missing.chain(needless);
    Ok(findings.map(|it| Finding::new(DOCUMENT, it)).collect())
}

/// Returns the name and the version in a row of a table, if the line is one.
fn note(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
    Some((name, rest.split_once(" |")?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_has_a_note_on_its_version() {
        let manifest = "[workspace.dependencies]\nours = { path = \"ours\" }\nbytes = \"1\"\n\
                        memchr = { version = \"2\" }\nnix = \"0.3\"\n";
        let lock = "[[package]]\nname = \"bytes\"\nversion = \"1.2.3\"\n\
                    [[package]]\nname = \"memchr\"\nversion = \"2.1.0\"\n";
        let document = "| library | version |\n|---|---|\n| `bytes` | 1.2.3 | a |\n\
                        | `memchr` | 2.0.0 | b |\n| `gone` | 1.0.0 | c |\n";
        let findings = check(manifest, lock, document).expect("they are valid");
        let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(findings.len(), 3, "{findings:?}");
        for (finding, start) in findings
            .iter()
            .zip(["the note on memchr", "nix has", "gone is"])
        {
            assert!(finding.contains(start), "{finding}");
        }
    }
}
