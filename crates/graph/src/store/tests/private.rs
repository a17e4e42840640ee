//! Permissions: other users of the machine have no access to a data directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::{Graph, Id};

fn mode(path: &Path) -> u32 {
    let metadata = fs::metadata(path).expect("a file");
    metadata.permissions().mode() & 0o7777
}

fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("own file");
}

/// Opens a graph, writes to it and closes it.
fn fill(path: &Path) {
    let graph = Graph::open(path).expect("a directory that can be used");
    let id = |text| Id::parse(text).expect("an id");
    graph.subscribe(&id("a"), &id("b")).expect("room");
    graph.end();
}

fn assert_private(path: &Path) {
    assert_eq!(mode(path), 0o700);
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn a_new_directory_and_its_files_are_private() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("deep/data");
    fill(&path);
    assert_private(&path);
}

#[test]
fn an_existing_directory_of_a_graph_and_an_empty_one_are_made_private() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    fs::create_dir(&path).unwrap();
    open_to_all(&path, 0o755);
    fill(&path);
    assert_private(&path);
    open_to_all(&path, 0o777);
    for name in ["graph.redb", "lock"] {
        open_to_all(&path.join(name), 0o644);
    }
    fill(&path);
    assert_private(&path);
}

#[test]
fn a_shared_directory_with_other_files_is_refused_and_not_changed() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("home");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("notes"), "mine").unwrap();
    open_to_all(&path, 0o755);
    let error = Graph::open(&path).err().expect("a refusal").to_string();
    assert!(
        error.contains("0755") && error.contains("chmod 700"),
        "{error}"
    );
    assert_eq!(mode(&path), 0o755);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
    open_to_all(&path, 0o700);
    fill(&path);
}

// A regression: another user with write access to the directory could make the server overwrite any
// file.
#[test]
fn a_lock_that_is_a_symbolic_link_is_refused_and_not_followed() {
    let parent = tempfile::tempdir().unwrap();
    let (path, target) = (parent.path().join("data"), parent.path().join("target"));
    fs::create_dir(&path).unwrap();
    fs::write(&target, "precious").unwrap();
    for to in [target.clone(), parent.path().join("missing")] {
        symlink(&to, path.join("lock")).unwrap();
        let error = Graph::open(&path).err().expect("a refusal").to_string();
        assert!(error.contains("symbolic link: remove it"), "{error}");
        fs::remove_file(path.join("lock")).unwrap();
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert!(!parent.path().join("missing").exists());
}
