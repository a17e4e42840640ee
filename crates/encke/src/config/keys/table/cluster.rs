//! Settings of a cluster.

use crate::config::fields::Shape::{File, List, Number, Text};
use crate::config::key::Otherwise::{Found, Is, Unset};
use crate::config::key::{Key, key};

pub(super) const CLUSTER: &[Key] = &[
    key(
        "cluster",
        List("SERVERS"),
        Unset("no cluster"),
        "Servers of NATS with JetStream that keep the log of the cluster, like \
         nats://10.0.0.1,10.0.0.2,10.0.0.3; tls:// for TLS",
    ),
    key(
        "cluster-name",
        Text("NAME"),
        Is("encke"),
        "Name of the cluster, the same on all its nodes",
    ),
    key(
        "node",
        Text("NAME"),
        Found("the name of the machine"),
        "Name of this node in the cluster",
    ),
    key(
        "cluster-user",
        Text("USER"),
        Unset("no user"),
        "User of NATS; needs cluster-password-file",
    ),
    key(
        "cluster-password-file",
        File,
        Unset("no file"),
        "File with the password of cluster-user; not readable by all users",
    ),
    key(
        "cluster-token-file",
        File,
        Unset("no file"),
        "File with a token for NATS; not readable by all users",
    ),
    key(
        "cluster-nkey-file",
        File,
        Unset("no file"),
        "File with the seed of an nkey for NATS; not readable by all users",
    ),
    key(
        "cluster-credentials",
        File,
        Unset("no file"),
        "Credentials file (.creds) for NATS; not readable by all users",
    ),
    key(
        "cluster-tls-ca",
        File,
        Unset("the authorities of the system"),
        "PEM file with the authorities that issued the certificates of NATS; requires TLS",
    ),
    key(
        "cluster-tls-cert",
        File,
        Unset("no certificate"),
        "Certificate of this node for NATS, PEM; requires TLS",
    ),
    key(
        "cluster-tls-key",
        File,
        Unset("no key"),
        "Private key of cluster-tls-cert, PEM; not readable by all users",
    ),
    key(
        "cluster-patience",
        Text("TIME"),
        Is("30s"),
        "Time without NATS after which clients are told to go to another node",
    ),
    key(
        "log-replicas",
        Number,
        Is("3"),
        "Servers of NATS that keep the log, if this node creates it: 1, 3 or 5",
    ),
    key(
        "log-bytes",
        Text("SIZE"),
        Is("8GiB"),
        "Size of the log, if this node creates it; the oldest entries beyond it are removed",
    ),
    key(
        "log-storage",
        Text("STORAGE"),
        Is("file"),
        "Where NATS keeps the log, if this node creates it: file or memory",
    ),
];
