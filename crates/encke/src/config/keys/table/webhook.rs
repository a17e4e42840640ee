//! Settings of the webhook.

use crate::config::fields::Shape::{File, Text};
use crate::config::key::Otherwise::{Is, Unset};
use crate::config::key::{Key, key, live};

pub(super) const WEBHOOK: &[Key] = &[
    key(
        "webhook-url",
        Text("URL"),
        Unset("no webhook"),
        "Report sessions and presence to this URL, in signed requests: https, or http to this \
         machine",
    ),
    live(
        "webhook-secret-file",
        File,
        Unset("none"),
        "File with the secret that signs the webhook's requests, `whsec_` and base64. It has \
         several lines while a secret is being replaced; not readable by all users",
    ),
    key(
        "webhook-events",
        Text("TYPES"),
        Is("connects,disconnects,presence"),
        "What the webhook reports: connects, disconnects, presence, separated by commas",
    ),
    key(
        "webhook-ca",
        File,
        Unset("those of the system"),
        "PEM file with the authorities that may have issued the certificate of the webhook's \
         receiver",
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
