//! The table of settings, in groups.
//!
//! A setting stands in one group and nowhere else. [`key`] makes one that is read at start only,
//! [`live`] one that a reload applies too. [`start_field`] and [`live_field`] do so for fields of
//! the data path, which need no other code: name the field and its unit here.

use crate::config::fields::Field;
use crate::config::fields::Shape::{File, Files, List, Number, Path, Switch, Text};
use crate::config::key::Otherwise::{Found, Is, Unset};
use crate::config::key::{Key, key, live, live_field, start_field};
use crate::config::values::{
    CONNECTIONS, CONNECTIONS_PER_ADDRESS, HEARTBEAT, SIZE, SLOW_POLICY, SWITCH, TIME, TIMEOUT,
    USER_TIMEOUT,
};

/// Settings that belong together, under one heading of the help.
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    pub(crate) keys: &'static [Key],
}

const fn group(heading: &'static str, keys: &'static [Key]) -> Group {
    Group { heading, keys }
}

/// All settings, in the order in which they are printed.
pub(crate) const GROUPS: &[Group] = &[
    group("Listeners", LISTENERS),
    group("TLS", TLS),
    group("Web pages", WEB_PAGES),
    group("Identity", IDENTITY),
    group("Control API", CONTROL_API),
    group("Subscriptions", SUBSCRIPTIONS),
    group("Workers", WORKERS),
    group("Limits", LIMITS),
    group("Streams", STREAMS),
    group("History", HISTORY),
    group("Presence", PRESENCE),
    group("Cluster", CLUSTER),
    group("Webhook", WEBHOOK),
    group("Erlang", ERLANG),
    group("Logs", LOGS),
];

const LISTENERS: &[Key] = &[
    key("listen", List("ADDRESS"), Is("127.0.0.1:8000"))
        .help("Address where clients connect; port 0 takes a free port; may be repeated"),
    key("tls-listen", List("ADDRESS"), Unset("none"))
        .help("Address where clients connect with TLS (https); may be repeated"),
    key("control", Text("ADDRESS"), Is("127.0.0.1:8001"))
        .help("Address where publishers and operators connect"),
    key("allow-anonymous", Switch, Is("false"))
        .help("Allow a public listener without identity: every client can read every id"),
];

const TLS: &[Key] = &[
    live("tls-cert", Files, Unset("no certificate")).help(
        "PEM file with the server's certificate, followed by those of its issuers. May be \
         repeated for several names; clients that ask for none of them get the first",
    ),
    live("tls-key", Files, Unset("no key")).help(
        "PEM file with the private key of a certificate, in the order of the certificates; may be \
         repeated",
    ),
    key("control-tls", Switch, Is("false")).help(
        "Serve the control listener and that of `metrics-listen` over TLS (https), with the \
         certificates of `tls-cert`",
    ),
    live("tls-keep-rustls", Switch, Is("false")).help(
        "Leave the records of TLS 1.3 to rustls, which needs about 7 KiB more for each connection",
    ),
];

const WEB_PAGES: &[Key] = &[
    live("host", List("NAME"), Unset("none")).help(
        "Host name under which clients reach the public listener, beside localhost and IP \
         addresses; requests with another Host header are refused. `*.example.com` for all names \
         below one, `*` for every name; may be repeated",
    ),
    live("cors-origin", List("ORIGIN"), Unset("none")).help(
        "Web origin whose pages may read streams, also with cookies and tokens; `*` for all, \
         without cookies; may be repeated",
    ),
    live_field("page", &Field(SWITCH, |live| &mut live.page))
        .help("Show a page at / that reads streams; `--page=false` switches it off"),
    live_field("health", &Field(SWITCH, |live| &mut live.health)).help(
        "Answer /livez and /readyz on the public listeners with yes or no, for load balancers; \
         `--health=false` switches it off",
    ),
    key("demo", Switch, Is("false")).help(
        "Let the page at / publish and subscribe, to try the server. It works only in browsers on \
         this machine, without a proxy and without a control token",
    ),
];

const IDENTITY: &[Key] = &[
    live("tickets", Switch, Is("false")).help(
        "Let clients log in with tickets, which POST /v1/tickets of the control listener makes",
    ),
    live("jwt-secret-file", Files, Unset("none")).help(
        "File with a secret of at least 32 bytes for tokens (JWT) signed with HS256; only its \
         owner and group may have access; may be repeated",
    ),
    live("jwt-key-file", Files, Unset("none")).help(
        "File with public keys in PEM for tokens signed with RS256, ES256 or EdDSA; may be \
         repeated",
    ),
    live("jwks-url", List("URL"), Unset("none")).help(
        "Address of a set of public keys (JWKS), fetched again every 5 minutes; may be repeated",
    ),
    live("jwt-issuer", List("TEXT"), Unset("not checked"))
        .help("Issuer whose tokens are accepted (`iss`); may be repeated"),
    live(
        "jwt-audience",
        List("TEXT"),
        Unset("none; tokens for an audience are refused"),
    )
    .help("Name of this server in tokens (`aud`); may be repeated"),
    live("jwt-cookie", Text("NAME"), Unset("none"))
        .help("Cookie that may hold a token, for browsers, whose EventSource sets no header"),
    live("jwt-query", Switch, Is("false"))
        .help("Accept a token in the query (`?access_token=`), where logs of proxies may show it"),
    key("client-publish", Switch, Is("false")).help(
        "Let clients publish over WebSocket, about the ids that their tokens list in the claim \
         `encke.publish`",
    ),
    live("identity-header", Text("NAME"), Unset("none"))
        .help("Header field in which a trusted proxy names the client that it has authenticated"),
    live("trusted-proxy", List("CIDR"), Unset("none")).help(
        "Network of proxies that may name their clients, like 10.0.0.0/8 or 127.0.0.1; may be \
         repeated",
    ),
    live_field(
        "proxy-protocol",
        &Field(SWITCH, |live| &mut live.proxy_protocol),
    )
    .help(
        "Connections of trusted proxies must begin with a PROXY protocol header (version 1 or 2), \
         which names the client; on all public listeners, before TLS",
    ),
];

const CONTROL_API: &[Key] = &[
    live("control-token", Text("TOKEN"), Unset("no token needed"))
        .help(
            "Token that control requests must send, of 16 to 1024 characters. A file or \
             ENCKE_CONTROL_TOKEN is safer, because other users of the machine can see command \
             lines",
        )
        .secret(),
    live("control-token-file", File, Unset("no file"))
        .help("File with the control token, of 16 to 1024 characters; not readable by all users"),
    key(
        "metrics-listen",
        Text("ADDRESS"),
        Unset("on the control listener only"),
    )
    .help(
        "Another address for /metrics and health checks alone. On loopback, programs of this \
         machine need no token there; elsewhere a token with the right `metrics` is needed",
    ),
    live("control-tokens", File, Unset("no file")).help(
        "File with several control tokens in TOML, each with a name, rights and optional prefixes \
         of ids; not readable by all users",
    ),
];

const SUBSCRIPTIONS: &[Key] = &[
    key("data", Text("DIR"), Is("./encke-data"))
        .help("Directory that stores the subscriptions; created if it does not exist"),
    key("memory", Switch, Is("false"))
        .help("Keep subscriptions in memory only; they are lost when the server ends"),
];

const WORKERS: &[Key] = &[
    key("workers", Number, Found("one for each core")).help("Number of worker threads"),
    start_field("private-fds", &Field(SWITCH, |all| &mut all.private_fds)).help(
        "Give each worker a descriptor table of its own, so that the limit on open files holds for \
         each",
    ),
];

const LIMITS: &[Key] = &[
    live_field(
        "max-connections",
        &Field(CONNECTIONS, |live| &mut live.max_connections),
    )
    .unset("no limit")
    .help("Simultaneous connections; further ones are answered with 503"),
    live_field(
        "max-connections-per-address",
        &Field(CONNECTIONS_PER_ADDRESS, |live| {
            &mut live.max_connections_per_address
        }),
    )
    .unset("no limit")
    .help(
        "Simultaneous connections from one IPv4 address or one IPv6 /64 network; further \
             ones are answered with 503",
    ),
    key("event-bytes", Text("SIZE"), Is("64KiB")).help("Largest event"),
    live_field(
        "backlog-bytes",
        &Field(SIZE, |live| &mut live.backlog_bytes),
    )
    .help("Most bytes that may wait for the full socket of a session"),
    live("buffer-bytes", Text("SIZE"), Found("a tenth of the memory")).help(
        "Most bytes that may wait for all connections together: unread events, unfinished \
         requests; beyond it the largest give way",
    ),
    live_field("slow", &Field(SLOW_POLICY, |live| &mut live.slow))
        .help("For clients that read too slowly: catch-up, close, drop-oldest or latest"),
    live_field(
        "stall-timeout",
        &Field(TIMEOUT, |live| &mut live.stall_timeout),
    )
    .help("Close a session whose full socket accepts no data for this long"),
    live_field(
        "head-timeout",
        &Field(TIMEOUT, |live| &mut live.head_timeout),
    )
    .help(
        "Time limit for the head of a request to arrive; the control listener takes a new value at \
         the next start",
    ),
    start_field(
        "user-timeout",
        &Field(USER_TIMEOUT, |all| &mut all.user_timeout),
    )
    .help("Close a connection whose peer acknowledges no data for this long (TCP_USER_TIMEOUT)"),
];

const STREAMS: &[Key] = &[
    live_field("heartbeat", &Field(HEARTBEAT, |live| &mut live.heartbeat))
        .help("Interval of heartbeats to an idle session; 0 for none"),
    live_field("retry", &Field(TIME, |live| &mut live.retry)).help(
        "Usual reconnect delay (`retry:`); each client gets its own, from 50 % to 150 % of it",
    ),
    live_field(
        "drain-timeout",
        &Field(TIME, |live| &mut live.drain_timeout),
    )
    .help("Time limit for the server to shut down"),
    live_field("drain-spread", &Field(TIME, |live| &mut live.drain_spread))
        .help("At shutdown, spread the reconnects of clients over this time"),
];

const HISTORY: &[Key] = &[
    key("history-bytes", Text("SIZE"), Is("64MiB"))
        .help("Memory for the latest events of all subjects; 0 for no history"),
    key("history-age", Text("TIME"), Unset("no limit"))
        .help("Remove events from the history after this time, also when there is room for more"),
    key("history-dir", Path, Unset("in memory only")).help(
        "Directory that keeps the history, so that clients miss nothing when the server restarts",
    ),
    key("history-sync", Text("TIME|receipt"), Is("100ms")).help(
        "When events survive a loss of power: this long after they are published or, with \
         `receipt`, before the publisher gets its receipt",
    ),
];

const PRESENCE: &[Key] = &[
    key("presence", Switch, Is("false")).help(
        "Keep which ids are online, and tell clients that ask with `?presence=1`; --demo does so \
         too",
    ),
    key("presence-delay", Text("TIME"), Is("10s")).help(
        "Time that an id stays online after its last session; clients that come back within it \
         cause no notice",
    ),
    key("presence-rate", Number, Is("50000")).help(
        "Most notices of presence a second, counted for all online subscribers of the ids that \
         come and go",
    ),
    key("presence-subscribers-max", Number, Is("5000"))
        .help("Ids with more subscribers than this look offline to them"),
];

const CLUSTER: &[Key] = &[
    key("cluster", List("SERVERS"), Unset("no cluster")).help(
        "Servers of NATS with JetStream that keep the log of the cluster, like \
         nats://10.0.0.1,10.0.0.2,10.0.0.3; tls:// for TLS",
    ),
    key("cluster-name", Text("NAME"), Is("encke"))
        .help("Name of the cluster, the same on all its nodes"),
    key("node", Text("NAME"), Found("the name of the machine"))
        .help("Name of this node in the cluster"),
    key("cluster-user", Text("USER"), Unset("no user"))
        .help("User of NATS; needs cluster-password-file"),
    key("cluster-password-file", File, Unset("no file"))
        .help("File with the password of cluster-user; not readable by all users"),
    key("cluster-token-file", File, Unset("no file"))
        .help("File with a token for NATS; not readable by all users"),
    key("cluster-nkey-file", File, Unset("no file"))
        .help("File with the seed of an nkey for NATS; not readable by all users"),
    key("cluster-credentials", File, Unset("no file"))
        .help("Credentials file (.creds) for NATS; not readable by all users"),
    key(
        "cluster-tls-ca",
        File,
        Unset("the authorities of the system"),
    )
    .help("PEM file with the authorities that issued the certificates of NATS; requires TLS"),
    key("cluster-tls-cert", File, Unset("no certificate"))
        .help("Certificate of this node for NATS, PEM; requires TLS"),
    key("cluster-tls-key", File, Unset("no key"))
        .help("Private key of cluster-tls-cert, PEM; not readable by all users"),
    key("cluster-patience", Text("TIME"), Is("30s"))
        .help("Time without NATS after which clients are told to go to another node"),
    key("log-replicas", Number, Is("3"))
        .help("Servers of NATS that keep the log, if this node creates it: 1, 3 or 5"),
    key("log-bytes", Text("SIZE"), Is("8GiB"))
        .help("Size of the log, if this node creates it; the oldest entries beyond it are removed"),
    key("log-storage", Text("STORAGE"), Is("file"))
        .help("Where NATS keeps the log, if this node creates it: file or memory"),
];

const WEBHOOK: &[Key] = &[
    key("webhook-url", Text("URL"), Unset("no webhook")).help(
        "Report sessions and presence to this URL, in signed requests: https, or http to this \
         machine",
    ),
    live("webhook-secret-file", File, Unset("none")).help(
        "File with the secret that signs the webhook's requests, `whsec_` and base64. It has \
         several lines while a secret is being replaced; not readable by all users",
    ),
    key(
        "webhook-events",
        Text("TYPES"),
        Is("connects,disconnects,presence"),
    )
    .help("What the webhook reports: connects, disconnects, presence, separated by commas"),
    key("webhook-ca", File, Unset("those of the system")).help(
        "PEM file with the authorities that may have issued the certificate of the webhook's \
         receiver",
    ),
    key("webhook-timeout", Text("TIME"), Is("10s")).help("Time limit of a request of the webhook"),
    key("webhook-give-up", Text("TIME"), Is("10m"))
        .help("Drop events that the webhook's receiver has not accepted for this long"),
];

const ERLANG: &[Key] = &[
    key("erlang-name", Text("NODE"), Unset("no Erlang node"))
        .help("Join an Erlang cluster as the node of this name, like encke@127.0.0.1"),
    key("erlang-cookie-file", File, Unset("~/.erlang.cookie"))
        .help("File with the cookie of the Erlang cluster; must be readable by its owner only"),
    key("erlang-listen", Text("ADDRESS"), Is("127.0.0.1:0"))
        .help("Address where Erlang nodes connect; port 0 takes a free port"),
    key("erlang-connect", List("NODE"), Unset("none"))
        .help("Erlang node to keep a connection to; may be repeated"),
    key("erlang-epmd-port", Number, Unset("ERL_EPMD_PORT, or 4369"))
        .help("Port of epmd, where Erlang nodes look up each other's ports"),
    key("erlang-start-epmd", Switch, Is("false")).help("Start epmd if it does not answer"),
    key("erlang-tick-time", Text("TIME"), Is("60s")).help(
        "Disconnect an Erlang node after this long without data; the same in all nodes \
         (net_ticktime)",
    ),
    key("erlang-login-check", Text("NAME,NODE"), Unset("no check")).help(
        "Let a registered Erlang process decide on logins of clients: like \
         gatekeeper,auth@127.0.0.1",
    ),
    key("erlang-login-timeout", Text("TIME"), Is("2s"))
        .help("Time limit of that process for a decision; 4s at most"),
    key("erlang-login-default", Text("VERDICT"), Is("refuse"))
        .help("What happens to a login that the process has not decided: refuse or accept"),
];

const LOGS: &[Key] = &[
    key("log-format", Text("FORMAT"), Is("text"))
        .help("Format of the log on standard error: text or json"),
    live("log-level", Text("LEVEL"), Is("info"))
        .help("Log level: off, error, warn, info, debug or trace"),
    key("access-log", Path, Unset("no access log")).help(
        "Append a line of JSON for each request that is answered and each session that ends, or \
         `-` for standard output. SIGHUP opens the file again",
    ),
    key("ports-file", Path, Unset("no file"))
        .help("When ready, write the addresses and the process id to this file, as JSON"),
];
