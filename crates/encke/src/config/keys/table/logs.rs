//! Settings of logs and files for programs.

use crate::config::fields::Shape::{Path, Text};
use crate::config::key::Otherwise::{Is, Unset};
use crate::config::key::{Key, key, live};

pub(super) const LOGS: &[Key] = &[
    key(
        "log-format",
        Text("FORMAT"),
        Is("text"),
        "Format of the log on standard error: text or json",
    ),
    live(
        "log-level",
        Text("LEVEL"),
        Is("info"),
        "Log level: off, error, warn, info, debug or trace",
    ),
    key(
        "access-log",
        Path,
        Unset("no access log"),
        "Append a line of JSON for each request that is answered and each session that ends, or \
         `-` for standard output. SIGHUP opens the file again",
    ),
    key(
        "ports-file",
        Path,
        Unset("no file"),
        "When ready, write the addresses and the process id to this file, as JSON",
    ),
];
