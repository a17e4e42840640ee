//! Settings of presence.

use crate::config::fields::Shape::{Number, Switch, Text};
use crate::config::key::Otherwise::Is;
use crate::config::key::{Key, key};

pub(super) const PRESENCE: &[Key] = &[
    key(
        "presence",
        Switch,
        Is("false"),
        "Keep which ids are online, and tell clients that ask with `?presence=1`; --demo does so \
         too",
    ),
    key(
        "presence-delay",
        Text("TIME"),
        Is("10s"),
        "Time that an id stays online after its last session; clients that come back within it \
         cause no notice",
    ),
    key(
        "presence-rate",
        Number,
        Is("50000"),
        "Most notices of presence a second, counted for all online subscribers of the ids that \
         come and go",
    ),
    key(
        "presence-subscribers-max",
        Number,
        Is("5000"),
        "Ids with more subscribers than this look offline to them",
    ),
];
