//! Help, manual pages and completions.

use crate::support::run;

const COMMANDS: &[&str] = &[
    "serve",
    "publish",
    "send",
    "listen",
    "subscribe",
    "unsubscribe",
    "sessions",
    "ticket",
    "revoke",
    "top",
    "graph",
    "cluster",
    "plan",
    "doctor",
    "completions",
    "man",
];

#[test]
fn the_help_is_that_of_the_checked_in_file() {
    assert_eq!(run(&["--help"]).done(), include_str!("help.txt"));
}

#[test]
fn every_command_has_help_and_refuses_unknown_flags() {
    for &command in COMMANDS {
        let help = run(&[command, "--help"]).done();
        assert!(
            help.contains("Example") && help.contains("Usage: encke"),
            "{help}"
        );
        let error = run(&[command, "--nonsense"]).failed(2);
        assert!(error.contains("--nonsense"), "{error}");
    }
    assert!(run(&[]).failed(2).contains("Usage: encke <COMMAND>"));
    assert!(run(&["serv"]).failed(2).contains("serve"));
}

#[test]
fn every_command_has_a_manual_page_and_is_completed() {
    let directory = tempfile::tempdir().unwrap();
    run(&["man", "--output", directory.path().to_str().unwrap()]).done();
    let script = run(&["completions", "bash"]).done();
    assert!(script.contains("complete -F _encke"), "{script}");
    for &command in COMMANDS {
        let page = directory.path().join(format!("encke-{command}.1"));
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains("Example") && page.contains("SYNOPSIS"));
        assert_eq!(run(&["man", command]).done(), page, "{command}");
        assert!(
            script.contains(&format!("encke__{command}"))
                || script.contains(&format!("encke__subcmd__{command}")),
            "{command}"
        );
    }
    let page = run(&["man", "graph", "backup"]).done();
    assert!(page.contains("\\-\\-online"), "{page}");
    assert!(
        run(&["man", "nonsense"])
            .failed(2)
            .contains("`encke nonsense`")
    );
    assert!(
        run(&["man", "--output", "/nowhere"])
            .failed(1)
            .contains("/nowhere")
    );
}

#[test]
fn a_command_that_has_moved_names_its_new_program_in_one_line() {
    for (old, new) in [
        ("flood", "encke-lab flood"),
        ("drive", "encke-lab drive"),
        ("friends", "encke-lab friends"),
        ("prove", "encke-lab prove"),
        ("record", "encke-lab record"),
        ("plot", "encke-lab plot"),
        ("proxy", "encke-proxy tcp"),
        ("hello", "encke-proxy hello"),
    ] {
        let error = run(&[old, "--help"]).failed(2);
        assert!(error.contains(&format!("is now `{new}`")), "{error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
}

#[test]
fn it_is_a_success_if_the_reader_closes_standard_output() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = crate::support::command(&["serve", "--print-config"]);
    let status = command.stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
