//! What every command of each program has: help, a manual page, completions, and an answer to
//! unknown flags. Tests of the programs include this file.

use std::process::{Command, Output};

/// Checks the `commands` of a program of this `name`.
pub fn check(program: &str, name: &str, commands: &[&str]) {
    let run = |arguments: &[&str]| -> Output {
        let mut command = Command::new(program);
        command.args(arguments).output().unwrap()
    };
    for &command in commands {
        let help = String::from_utf8(run(&[command, "--help"]).stdout).unwrap();
        assert!(help.contains(&format!("Usage: {name} {command}")), "{help}");
        let page = String::from_utf8(run(&["man", command]).stdout).unwrap();
        assert!(page.contains("SYNOPSIS"), "{command}");
        let refused = run(&[command, "--nonsense"]);
        assert_eq!(refused.status.code(), Some(2), "{command}");
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.contains("--nonsense"), "{error}");
    }
    let script = String::from_utf8(run(&["completions", "bash"]).stdout).unwrap();
    assert!(script.contains(name), "{script}");
    let error = String::from_utf8(run(&["man", "nonsense"]).stderr).unwrap();
    assert!(error.contains(&format!("`{name} nonsense`")), "{error}");
}
