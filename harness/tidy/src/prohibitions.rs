//! `clippy.toml`: a crate's own file must repeat the prohibitions of the one at the top.
//!
//! Clippy reads only the nearest `clippy.toml`, so a crate's file without them would permit what
//! the file at the top forbids.

use toml::{Table, Value};

use crate::Finding;

/// Returns each setting of `root` that `own` lacks, and each prohibition in it without a reason.
/// `own` is the `clippy.toml` of a crate.
///
/// # Errors
///
/// When one of the two is not TOML.
pub fn check(path: &str, own: &str, root: &str) -> Result<Vec<Finding>, toml::de::Error> {
    let (own, root): (Table, Table) = (toml::from_str(own)?, toml::from_str(root)?);
    let mut findings = Vec::new();
    for (key, value) in &root {
        let lacks =
            |what: &str| Finding::new(path, format!("must repeat {what} of the one at the top"));
        match (value, own.get(key)) {
            (_, None) => findings.push(lacks(&format!("`{key}`"))),
            (Value::Array(of_all), Some(Value::Array(of_crate))) => {
                let lost = of_all.iter().filter(|entry| !of_crate.contains(entry));
                findings.extend(lost.map(|entry| lacks(&format!("`{entry}` in `{key}`"))));
            }
            (value, Some(other)) if value != other => findings.push(lacks(&format!("`{key}`"))),
            _ => {}
        }
    }
    for (key, value) in &own {
        let entries = value.as_array().into_iter().flatten();
        let bare = entries.filter(|entry| entry.get("reason").is_none());
        findings.extend(
            bare.map(|entry| Finding::new(path, format!("`{entry}` in `{key}` needs a reason"))),
        );
    }
    Ok(findings)
}

/// Returns a finding when a crate does not take the lints of the workspace, which deny what
/// `clippy.toml` lists.
///
/// # Errors
///
/// When the manifest is not TOML.
pub fn check_manifest(path: &str, manifest: &str) -> Result<Option<Finding>, toml::de::Error> {
    let manifest: Table = toml::from_str(manifest)?;
    let lints = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"));
    let message = "must take the lints of the workspace: `[lints]`, `workspace = true`";
    Ok((lints != Some(&Value::Boolean(true))).then(|| Finding::new(path, message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = r#"
        allow-unwrap-in-tests = true
        disallowed-methods = [{ path = "std::process::exit", reason = "skips destructors" }]
    "#;

    fn found(own: &str) -> Vec<String> {
        let findings = check("own", own, ROOT).unwrap();
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn prohibitions_of_the_workspace_are_repeated_with_their_reasons() {
        assert_eq!(found(ROOT), [""; 0]);
        assert_eq!(
            found("disallowed-methods = []"),
            [
                "own: must repeat `allow-unwrap-in-tests` of the one at the top",
                "own: must repeat `{ path = \"std::process::exit\", \
                 reason = \"skips destructors\" }` \
                 in `disallowed-methods` of the one at the top"
            ]
        );
        let bare = ROOT.to_owned() + "disallowed-types = [{ path = \"std::fs::File\" }]";
        assert_eq!(
            found(&bare),
            ["own: `{ path = \"std::fs::File\" }` in `disallowed-types` needs a reason"]
        );
    }

    #[test]
    fn a_crate_takes_the_lints_of_the_workspace() {
        let taken = check_manifest("a", "[lints]\nworkspace = true\n").unwrap();
        assert_eq!(taken, None);
        assert!(check_manifest("a", "[package]\n").unwrap().is_some());
    }
}
