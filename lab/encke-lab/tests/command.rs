//! The program as its users call it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[allow(unreachable_pub, reason = "tests of other programs include it")]
#[path = "../../../harness/tests/commands/conventions.rs"]
mod conventions;

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

#[test]
fn every_command_has_help_and_a_manual_page_and_refuses_unknown_flags() {
    conventions::check(env!("CARGO_BIN_EXE_encke-lab"), "encke-lab", COMMANDS);
}
