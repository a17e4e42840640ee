//! The rules of `tidy`, applied to this repository.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::process::Command;
use std::{env, fs};

use tidy::dependencies::Metadata;
use tidy::files::{self, TextFile};
use tidy::fuzzing::{self, Fuzzing};
use tidy::{
    Finding, columns, contents, dependencies, line_numbers, notes, prohibitions, prose, stairs,
};

#[track_caller]
fn assert_none(findings: impl IntoIterator<Item = Finding>) {
    let findings: Vec<String> = findings.into_iter().map(|it| it.to_string()).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

fn sources() -> Vec<TextFile> {
    let sources = files::rust_sources(&files::root()).unwrap();
    assert!(sources.len() > 100, "only {} sources", sources.len());
    sources
}

/// Returns the directories of the crates.
fn crates() -> Vec<String> {
    let mut crates = Vec::new();
    for room in files::ROOMS {
        for entry in fs::read_dir(files::root().join(room)).unwrap() {
            let entry = entry.unwrap();
            if entry.path().join("Cargo.toml").exists() {
                crates.push(format!(
                    "{room}/{}",
                    entry.file_name().into_string().unwrap()
                ));
            }
        }
    }
    crates.retain(|directory| directory != "harness/fuzz");
    crates
}

#[test]
fn no_crate_has_a_forbidden_dependency() {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--offline", "--locked", "--format-version=1"])
        // Libraries for other systems may not have been downloaded.
        .arg(format!(
            "--filter-platform={}-unknown-linux-gnu",
            env::consts::ARCH
        ))
        .current_dir(files::root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {errors}");
    let metadata: Metadata = serde_json::from_slice(&output.stdout).unwrap();
    assert_none(dependencies::check(&metadata));
}

/// A crate with `doctest = false` saves a run of rustdoc, which would find nothing to run.
#[test]
fn a_crate_whose_examples_are_not_run_has_none() {
    let sources = sources();
    for directory in crates() {
        let manifest = files::root().join(&directory).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        let own = format!("{directory}/src/");
        for source in sources.iter().filter(|it| it.path.starts_with(&own)) {
            let mut lines = source.text.lines().map(str::trim_start);
            let has_example =
                lines.any(|line| line.starts_with("/// ```") || line.starts_with("//! ```"));
            let is_run = !manifest.contains("doctest = false");
            assert!(is_run || !has_example, "{} has one", source.path);
        }
    }
}

#[test]
fn no_more_than_three_files_use_each_other_in_a_circle() {
    let sources = sources();
    let crates = crates().into_iter();
    assert_none(crates.flat_map(|directory| stairs::check(&directory, &sources)));
}

#[test]
fn every_library_has_a_note_on_the_version_in_use() {
    let read = |path: &str| fs::read_to_string(files::root().join(path)).unwrap();
    let [manifest, lock, document] = ["Cargo.toml", "Cargo.lock", notes::DOCUMENT].map(read);
    let crates = crates().into_iter();
    let crates: Vec<_> = crates.map(|it| read(&format!("{it}/Cargo.toml"))).collect();
    assert_none(notes::check(&manifest, &crates, &lock, &document).unwrap());
}

#[test]
fn every_fuzz_target_has_inputs_and_every_crash_has_a_test() {
    let root = files::root();
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let sizes = |path: &str| files::sizes(&root, path).unwrap();
    let targets = sizes("harness/fuzz/fuzz_targets");
    assert!(targets.len() > 15, "only {} targets", targets.len());
    assert_none(fuzzing::check(&Fuzzing {
        manifest: &read(fuzzing::MANIFEST),
        document: &read(fuzzing::DOCUMENT),
        targets,
        seeds: sizes("harness/fuzz/seeds"),
        corpora: sizes("harness/fuzz/corpora"),
        crashes: sizes("harness/fuzz/crashes"),
        sources: &sources(),
    }));
}

/// With two providers of cryptography in one program, `rustls` has no default. `cargo metadata`
/// also lists libraries that no feature enables; `cargo tree` does not.
#[test]
fn the_only_provider_of_cryptography_is_aws_lc() {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["tree", "--offline", "--locked", "--workspace"])
        .args(["--edges=normal,build", "--prefix=none", "--format={p}"])
        .current_dir(files::root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree: {errors}");
    let tree = String::from_utf8_lossy(&output.stdout);
    let uses = |library: &str| tree.lines().any(|line| line.starts_with(library));
    assert!(uses("aws-lc-rs v"));
    assert!(!uses("ring v") && !uses("openssl v"), "{tree}");
}

#[test]
fn every_crate_repeats_the_prohibitions_of_the_workspace() {
    let read = |path: &str| fs::read_to_string(files::root().join(path)).unwrap();
    let root = read("clippy.toml");
    for directory in crates() {
        let manifest = format!("{directory}/Cargo.toml");
        assert_none(prohibitions::check_manifest(&manifest, &read(&manifest)).unwrap());
        let own = format!("{directory}/clippy.toml");
        if files::root().join(&own).exists() {
            assert_none(prohibitions::check(&own, &read(&own), &root).unwrap());
        }
    }
}

#[test]
fn tables_of_contents_follow_one_convention() {
    assert_none(sources().iter().flat_map(contents::check));
}

#[test]
fn no_line_is_wider_than_100_columns() {
    assert_none(sources().iter().flat_map(columns::check));
}

#[test]
fn no_comment_names_a_line_number() {
    assert_none(sources().iter().flat_map(line_numbers::check));
}

#[test]
fn pages_have_short_lines_and_short_sentences() {
    let pages = files::pages(&files::root()).unwrap();
    assert!(pages.len() > 25, "only {} pages", pages.len());
    assert_none(pages.iter().flat_map(prose::check));
}
