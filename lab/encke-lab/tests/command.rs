//! The program as its users call it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::process::{Command, Output};

const COMMANDS: &[&str] = &[
    "flood",
    "drive",
    "friends",
    "prove",
    "record",
    "plot",
    "compare",
    "completions",
    "man",
];

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_encke-lab"));
    command.args(arguments).output().unwrap()
}

#[test]
fn every_command_has_help_and_a_manual_page_and_refuses_unknown_flags() {
    for &command in COMMANDS {
        let help = String::from_utf8(run(&[command, "--help"]).stdout).unwrap();
        assert!(
            help.contains(&format!("Usage: encke-lab {command}")),
            "{help}"
        );
        let page = String::from_utf8(run(&["man", command]).stdout).unwrap();
        assert!(page.contains("SYNOPSIS"), "{command}");
        let refused = run(&[command, "--nonsense"]);
        assert_eq!(refused.status.code(), Some(2), "{command}");
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.contains("--nonsense"), "{error}");
    }
    let script = String::from_utf8(run(&["completions", "bash"]).stdout).unwrap();
    assert!(script.contains("encke-lab"), "{script}");
    let error = String::from_utf8(run(&["man", "nonsense"]).stderr).unwrap();
    assert!(error.contains("`encke-lab nonsense`"), "{error}");
}
