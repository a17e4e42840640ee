//! What the command says of itself.

use crate::support::run;

const COMMANDS: &[&str] = &[
    "serve",
    "publish",
    "send",
    "listen",
    "subscribe",
    "unsubscribe",
    "sessions",
    "top",
    "friends",
    "graph",
    "flood",
    "drive",
    "record",
    "plot",
    "doctor",
    "prove",
    "proxy",
    "hello",
];

#[test]
fn the_help_is_what_the_newcomer_was_promised() {
    assert_eq!(run(&["--help"]).done(), include_str!("help.txt"));
}

#[test]
fn every_command_has_help_and_takes_no_unknown_flag() {
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
fn a_reader_that_went_away_is_success() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = crate::support::command(&["serve", "--print-config"]);
    let status = command.stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
