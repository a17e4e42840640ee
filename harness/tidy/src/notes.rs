//! `docs/DEPENDENCIES.md`: a note on each library in a manifest, for the version in use.

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
    dependencies: Table,
}

/// Dependencies in the manifest of a crate, also those for some systems only.
#[derive(Deserialize)]
struct CrateManifest {
    #[serde(flatten)]
    tables: Tables,
    #[serde(default)]
    target: BTreeMap<String, Tables>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct Tables {
    dependencies: Table,
    dev_dependencies: Table,
    build_dependencies: Table,
}

type Table = BTreeMap<String, toml::Value>;

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

/// Returns a finding for each library in a manifest that has no note, or a note on a version that
/// is not in the lock file, and for each note without a library.
///
/// # Errors
///
/// When a manifest or the lock file is malformed.
pub fn check(
    manifest: &str,
    crates: &[String],
    lock: &str,
    document: &str,
) -> Result<Vec<Finding>, toml::de::Error> {
    let Manifest { workspace } = toml::from_str(manifest)?;
    let Lock { package } = toml::from_str(lock)?;
    let locked: BTreeSet<_> = package.iter().map(|it| (&*it.name, &*it.version)).collect();
    let noted: BTreeMap<_, _> = document.lines().filter_map(note).collect();
    let mut libraries = BTreeSet::new();
    collect(&workspace.dependencies, &mut libraries);
    for manifest in crates {
        let CrateManifest { tables, target } = toml::from_str(manifest)?;
        for tables in target.into_values().chain([tables]) {
            collect(&tables.dependencies, &mut libraries);
            collect(&tables.dev_dependencies, &mut libraries);
            collect(&tables.build_dependencies, &mut libraries);
        }
    }
    let missing = libraries.iter().filter_map(|name| match noted.get(&**name) {
        None => Some(format!("{name} has no note: read it, and add its row")),
        Some(&version) if !locked.contains(&(name, version)) => Some(format!(
            "the note on {name} is about {version}, which Cargo.lock does not have: look at what \
             has changed since, and bring the row up to date"
        )),
        Some(_) => None,
    });
    let needless = noted.keys().filter(|name| !libraries.contains(**name));
    let needless = needless.map(|name| format!("{name} is in no Cargo.toml: remove its row"));
    let findings = missing.chain(needless);
    Ok(findings.map(|it| Finding::new(DOCUMENT, it)).collect())
}

/// Adds the libraries of a table, without the crates of the workspace and without inherited
/// entries, which are in the manifest of the workspace.
fn collect(table: &Table, libraries: &mut BTreeSet<String>) {
    for (name, value) in table {
        if value.get("path").is_none() && value.get("workspace").is_none() {
            let renamed = value.get("package").and_then(toml::Value::as_str);
            libraries.insert(renamed.unwrap_or(name).to_owned());
        }
    }
}

/// Returns the name and the version in a row of a table, if the line is one.
fn note(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
    Some((name, rest.split_once(" |")?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(manifest: &str, crates: &[&str], document: &str) -> Vec<String> {
        let lock = "[[package]]\nname = \"bytes\"\nversion = \"1.2.3\"\n\
                    [[package]]\nname = \"memchr\"\nversion = \"2.1.0\"\n";
        let crates: Vec<_> = crates.iter().copied().map(str::to_owned).collect();
        let findings = check(manifest, &crates, lock, document).expect("they are valid");
        findings.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn assert_starts(findings: &[String], starts: &[&str]) {
        assert_eq!(findings.len(), starts.len(), "{findings:?}");
        for (finding, start) in findings.iter().zip(starts) {
            assert!(finding.contains(start), "{finding}");
        }
    }

    #[test]
    fn each_library_has_a_note_on_its_version() {
        let manifest = "[workspace.dependencies]\nours = { path = \"ours\" }\nbytes = \"1\"\n\
                        memchr = { version = \"2\" }\nnix = \"0.3\"\n";
        let document = "| library | version |\n|---|---|\n| `bytes` | 1.2.3 | a |\n\
                        | `memchr` | 2.0.0 | b |\n| `gone` | 1.0.0 | c |\n";
        assert_starts(
            &findings(manifest, &[], document),
            &["the note on memchr", "nix has", "gone is"],
        );
    }

    // Regression: two libraries that were only in the manifest of one crate had no note for months.
    #[test]
    fn a_library_that_only_a_crate_names_has_a_note_too() {
        let workspace = "[workspace.dependencies]\nbytes = \"1\"\n";
        let ours = "[package]\nname = \"ours\"\n[dependencies]\nbytes.workspace = true\n\
                    other = { path = \"../other\" }\ntower = \"0.5\"\n\
                    [dev-dependencies]\nfast = { package = \"memchr\", version = \"2\" }\n\
                    [build-dependencies]\ncc = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n";
        let document = "| `bytes` | 1.2.3 | a |\n| `memchr` | 2.1.0 | b |\n";
        assert_starts(
            &findings(workspace, &[ours], document),
            &["cc has", "libc has", "tower has"],
        );
    }
}
