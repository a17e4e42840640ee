//! Reload by SIGHUP: what it changes, and what it logs.

use std::fs;

use rustix::process::Signal;

use crate::support::{Folder, Server};

#[test]
fn a_reload_names_what_it_changed_and_what_needs_a_restart() {
    let folder = Folder::new();
    let path = folder.file("encke.toml", "log-level = \"info\"\nworkers = 1\n");
    let server = Server::start(&["--config", &path]);
    let report = |text: &str| {
        fs::write(&path, text).unwrap();
        server.process.signal(Signal::HUP);
        server.errors.find("reload")
    };
    let said = report("log-level = \"debug\"\nworkers = 2\n");
    assert!(
        said.contains("changed: log-level; a restart is needed for: workers"),
        "{said}"
    );
    // The new level is in force. A setting that needs a restart is named until its change is
    // undone.
    let said = report("log-level = \"debug\"\nworkers = 2\n");
    assert!(said.contains("a restart is needed for: workers"), "{said}");
    let said = report("log-level = \"debug\"\nworkers = 1\n");
    assert!(said.contains("nothing has changed"), "{said}");
}

#[test]
fn an_invalid_file_changes_nothing_and_is_reported_in_one_line() {
    let folder = Folder::new();
    let path = folder.file("encke.toml", "log-level = \"info\"\n");
    let server = Server::start(&["--config", &path]);
    fs::write(
        &path,
        "log-level = \"debug\"\nhartbeat = 1\nretry = \"x\"\n",
    )
    .unwrap();
    server.process.signal(Signal::HUP);
    let said = server.errors.find("reload");
    for part in ["changed nothing", "hartbeat", "retry", "encke.toml"] {
        assert!(said.contains(part), "{said}");
    }
    fs::remove_file(&path).unwrap();
    server.process.signal(Signal::HUP);
    let said = server.errors.find("reload");
    assert!(
        said.contains("changed nothing") && said.contains("encke.toml"),
        "{said}"
    );
    fs::write(&path, "log-level = \"debug\"\n").unwrap();
    server.process.signal(Signal::HUP);
    assert!(server.errors.find("reload").contains("changed: log-level"));
}
