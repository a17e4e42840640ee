//! Settings of the history.

use crate::config::fields::Shape::{Path, Text};
use crate::config::key::Otherwise::{Is, Unset};
use crate::config::key::{Key, key};

pub(super) const HISTORY: &[Key] = &[
    key(
        "history-bytes",
        Text("SIZE"),
        Is("64MiB"),
        "Memory for the latest events of all subjects; 0 for no history",
    ),
    key(
        "history-age",
        Text("TIME"),
        Unset("no limit"),
        "Remove events from the history after this time, also when there is room for more",
    ),
    key(
        "history-dir",
        Path,
        Unset("in memory only"),
        "Directory that keeps the history, so that clients miss nothing when the server restarts",
    ),
    key(
        "history-sync",
        Text("TIME|receipt"),
        Is("100ms"),
        "When events survive a loss of power: this long after they are published or, with \
         `receipt`, before the publisher gets its receipt",
    ),
];
