//! Settings of the webhook.

use crate::config::fields::Shape::{File, Text};
use crate::config::key::Otherwise::{Is, Unset};
use crate::config::key::{Key, key, live};

pub(super) const WEBHOOK: &[Key] = &[
    key(
        "webhook-url",
        Text("URL"),
        Unset("no webhook"),
        "Send what happens to sessions and to presence to this URL, in signed requests: https, or \
         http to this machine",
    ),
    live(
        "webhook-secret-file",
        File,
        Unset("none"),
        "File with the secret that requests of the webhook are signed with, `whsec_` and base64; \
         several, a line each, while one is replaced; not readable by all users",
    ),
    key(
        "webhook-events",
        Text("TYPES"),
        Is("connects,disconnects,presence"),
        "What the webhook is sent: connects, disconnects, presence, with commas between",
    ),
    key(
        "webhook-ca",
        File,
        Unset("those of the system"),
        "PEM file with the authorities that the certificate of the webhook's receiver may come \
         from",
    ),
    key(
        "webhook-timeout",
        Text("TIME"),
        Is("10s"),
        "Time limit of a request of the webhook",
    ),
    key(
        "webhook-give-up",
        Text("TIME"),
        Is("10m"),
        "Drop events that the webhook's receiver has not accepted for this long",
    ),
];
