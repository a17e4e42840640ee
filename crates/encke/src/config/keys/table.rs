//! The table of settings, in groups.
//!
//! A setting stands in one group and nowhere else. [`key`] makes one that is read at start only,
//! [`live`] one that a reload applies too. [`start_field`] and [`live_field`] do so for fields of
//! the data path, which need no other code: name the field and its unit here.

mod cluster;
mod history;
mod presence;
mod webhook;
mod logs;

use crate::config::fields::Field;
use crate::config::fields::Shape::{File, Files, List, Number, Switch, Text};
use crate::config::key::Otherwise::{Found, Is, Unset};
use crate::config::key::{Key, key, live, live_field, start_field};
use crate::config::values::{
    CONNECTIONS, CONNECTIONS_PER_ADDRESS, HEARTBEAT, SIZE, SLOW_POLICY, SWITCH, TIME, TIMEOUT,
    USER_TIMEOUT,
};
use cluster::CLUSTER;
use history::HISTORY;
use logs::LOGS;
use presence::PRESENCE;
use webhook::WEBHOOK;

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
    key(
        "listen",
        List("ADDRESS"),
        Is("127.0.0.1:8000"),
        "Address where clients connect; port 0 takes a free port; may be repeated",
    ),
    key(
        "tls-listen",
        List("ADDRESS"),
        Unset("none"),
        "Address where clients connect with TLS (https); may be repeated",
    ),
    key(
        "control",
        Text("ADDRESS"),
        Is("127.0.0.1:8001"),
        "Address where publishers and operators connect",
    ),
    key(
        "allow-anonymous",
        Switch,
        Is("false"),
        "Allow a public listener without identity: every client can read every id",
    ),
];

const TLS: &[Key] = &[
    live(
        "tls-cert",
        Files,
        Unset("no certificate"),
        "PEM file with the server's certificate, followed by those of its issuers. May be \
         repeated for several names; clients that ask for none of them get the first",
    ),
    live(
        "tls-key",
        Files,
        Unset("no key"),
        "PEM file with the private key of a certificate, in the order of the certificates; may be \
         repeated",
    ),
    key(
        "control-tls",
        Switch,
        Is("false"),
        "Serve the control listener and that of `metrics-listen` over TLS (https), with the \
         certificates of `tls-cert`",
    ),
    live(
        "tls-keep-rustls",
        Switch,
        Is("false"),
        "Leave the records of TLS 1.3 to rustls, which needs about 7 KiB more for each connection",
    ),
];

const WEB_PAGES: &[Key] = &[
    live(
        "host",
        List("NAME"),
        Unset("none"),
        "Host name under which clients reach the public listener, beside localhost and IP \
         addresses; requests with another Host header are refused. `*.example.com` for all names \
         below one, `*` for every name; may be repeated",
    ),
    live(
        "cors-origin",
        List("ORIGIN"),
        Unset("none"),
        "Web origin whose pages may read streams, also with cookies and tokens; `*` for all, \
         without cookies; may be repeated",
    ),
    live_field(
        "page",
        &Field(SWITCH, |live| &mut live.page),
        "Show a page at / that reads streams; `--page=false` switches it off",
    ),
    live_field(
        "health",
        &Field(SWITCH, |live| &mut live.health),
        "Answer /livez and /readyz on the public listeners with yes or no, for load balancers; \
         `--health=false` switches it off",
    ),
    key(
        "demo",
        Switch,
        Is("false"),
        "Let the page at / publish and subscribe, to try the server. It works only in browsers on \
         this machine, without a proxy and without a control token",
    ),
];

const IDENTITY: &[Key] = &[
    live(
        "tickets",
        Switch,
        Is("false"),
        "Let clients log in with tickets, which POST /v1/tickets of the control listener makes",
    ),
    live(
        "jwt-secret-file",
        Files,
        Unset("none"),
        "File with a secret of at least 32 bytes for tokens (JWT) signed with HS256; only its \
         owner and group may have access; may be repeated",
    ),
    live(
        "jwt-key-file",
        Files,
        Unset("none"),
        "File with public keys in PEM for tokens signed with RS256, ES256 or EdDSA; may be \
         repeated",
    ),
    live(
        "jwks-url",
        List("URL"),
        Unset("none"),
        "Address of a set of public keys (JWKS), fetched again every 5 minutes; may be repeated",
    ),
    live(
        "jwt-issuer",
        List("TEXT"),
        Unset("not checked"),
        "Issuer whose tokens are accepted (`iss`); may be repeated",
    ),
    live(
        "jwt-audience",
        List("TEXT"),
        Unset("none; tokens for an audience are refused"),
        "Name of this server in tokens (`aud`); may be repeated",
    ),
    live(
        "jwt-cookie",
        Text("NAME"),
        Unset("none"),
        "Cookie that may hold a token, for browsers, whose EventSource sets no header",
    ),
    live(
        "jwt-query",
        Switch,
        Is("false"),
        "Accept a token in the query (`?access_token=`), where logs of proxies may show it",
    ),
    key(
        "client-publish",
        Switch,
        Is("false"),
        "Let clients publish over WebSocket, about the ids that their tokens list in the claim \
         `encke.publish`",
    ),
    live(
        "identity-header",
        Text("NAME"),
        Unset("none"),
        "Header field in which a trusted proxy names the client that it has authenticated",
    ),
    live(
        "trusted-proxy",
        List("CIDR"),
        Unset("none"),
        "Network of proxies that may name their clients, like 10.0.0.0/8 or 127.0.0.1; may be \
         repeated",
    ),
    live_field(
        "proxy-protocol",
        &Field(SWITCH, |live| &mut live.proxy_protocol),
        "Connections of trusted proxies must begin with a PROXY protocol header (version 1 or 2), \
         which names the client; on all public listeners, before TLS",
    ),
];

const CONTROL_API: &[Key] = &[
    Key {
        secret: true,
        ..live(
            "control-token",
            Text("TOKEN"),
            Unset("no token needed"),
            "Token that control requests must send, of 16 to 1024 characters. A file or \
             ENCKE_CONTROL_TOKEN is safer, because other users of the machine can see command \
             lines",
        )
    },
    live(
        "control-token-file",
        File,
        Unset("no file"),
        "File with the control token, of 16 to 1024 characters; not readable by all users",
    ),
    key(
        "metrics-listen",
        Text("ADDRESS"),
        Unset("on the control listener only"),
        "Another address for /metrics and health checks alone. On loopback, programs of this \
         machine need no token there; elsewhere a token with the right `metrics` is needed",
    ),
    live(
        "control-tokens",
        File,
        Unset("no file"),
        "File with several control tokens in TOML, each with a name, rights and optional prefixes \
         of ids; not readable by all users",
    ),
];

const SUBSCRIPTIONS: &[Key] = &[
    key(
        "data",
        Text("DIR"),
        Is("./encke-data"),
        "Directory that stores the subscriptions; created if it does not exist",
    ),
    key(
        "memory",
        Switch,
        Is("false"),
        "Keep subscriptions in memory only; they are lost when the server ends",
    ),
];

const WORKERS: &[Key] = &[
    key(
        "workers",
        Number,
        Found("one for each core"),
        "Number of worker threads",
    ),
    start_field(
        "private-fds",
        &Field(SWITCH, |all| &mut all.private_fds),
        "Give each worker a descriptor table of its own, so that the limit on open files holds for \
         each",
    ),
];

const LIMITS: &[Key] = &[
    Key {
        default: Unset("no limit"),
        ..live_field(
            "max-connections",
            &Field(CONNECTIONS, |live| &mut live.max_connections),
            "Simultaneous connections; further ones are answered with 503",
        )
    },
    Key {
        default: Unset("no limit"),
        ..live_field(
            "max-connections-per-address",
            &Field(CONNECTIONS_PER_ADDRESS, |live| {
                &mut live.max_connections_per_address
            }),
            "Simultaneous connections from one IPv4 address or one IPv6 /64 network; further \
             ones are answered with 503",
        )
    },
    key("event-bytes", Text("SIZE"), Is("64KiB"), "Largest event"),
    live_field(
        "backlog-bytes",
        &Field(SIZE, |live| &mut live.backlog_bytes),
        "Most bytes that may wait for the full socket of a session",
    ),
    live(
        "buffer-bytes",
        Text("SIZE"),
        Found("a tenth of the memory"),
        "Most bytes that may wait for all connections together: unread events, unfinished \
         requests; beyond it the largest give way",
    ),
    live_field(
        "slow",
        &Field(SLOW_POLICY, |live| &mut live.slow),
        "For clients that read too slowly: catch-up, close, drop-oldest or latest",
    ),
    live_field(
        "stall-timeout",
        &Field(TIMEOUT, |live| &mut live.stall_timeout),
        "Close a session whose full socket accepts no data for this long",
    ),
    live_field(
        "head-timeout",
        &Field(TIMEOUT, |live| &mut live.head_timeout),
        "Time limit for the head of a request to arrive; the control listener takes a new value at \
         the next start",
    ),
    start_field(
        "user-timeout",
        &Field(USER_TIMEOUT, |all| &mut all.user_timeout),
        "Close a connection whose peer acknowledges no data for this long (TCP_USER_TIMEOUT)",
    ),
];

const STREAMS: &[Key] = &[
    live_field(
        "heartbeat",
        &Field(HEARTBEAT, |live| &mut live.heartbeat),
        "Interval of heartbeats to an idle session; 0 for none",
    ),
    live_field(
        "retry",
        &Field(TIME, |live| &mut live.retry),
        "Usual reconnect delay (`retry:`); each client gets its own, from 50 % to 150 % of it",
    ),
    live_field(
        "drain-timeout",
        &Field(TIME, |live| &mut live.drain_timeout),
        "Time limit for the server to shut down",
    ),
    live_field(
        "drain-spread",
        &Field(TIME, |live| &mut live.drain_spread),
        "At shutdown, spread the reconnects of clients over this time",
    ),
];

const ERLANG: &[Key] = &[
    key(
        "erlang-name",
        Text("NODE"),
        Unset("no Erlang node"),
        "Join an Erlang cluster as the node of this name, like encke@127.0.0.1",
    ),
    key(
        "erlang-cookie-file",
        File,
        Unset("~/.erlang.cookie"),
        "File with the cookie of the Erlang cluster; must be readable by its owner only",
    ),
    key(
        "erlang-listen",
        Text("ADDRESS"),
        Is("127.0.0.1:0"),
        "Address where Erlang nodes connect; port 0 takes a free port",
    ),
    key(
        "erlang-connect",
        List("NODE"),
        Unset("none"),
        "Erlang node to keep a connection to; may be repeated",
    ),
    key(
        "erlang-epmd-port",
        Number,
        Unset("ERL_EPMD_PORT, or 4369"),
        "Port of epmd, where Erlang nodes look up each other's ports",
    ),
    key(
        "erlang-start-epmd",
        Switch,
        Is("false"),
        "Start epmd if it does not answer",
    ),
    key(
        "erlang-tick-time",
        Text("TIME"),
        Is("60s"),
        "Disconnect an Erlang node after this long without data; the same in all nodes \
         (net_ticktime)",
    ),
    key(
        "erlang-login-check",
        Text("NAME,NODE"),
        Unset("no check"),
        "Let a registered Erlang process decide on logins of clients: like \
         gatekeeper,auth@127.0.0.1",
    ),
    key(
        "erlang-login-timeout",
        Text("TIME"),
        Is("2s"),
        "Time limit of that process for a decision; 4s at most",
    ),
    key(
        "erlang-login-default",
        Text("VERDICT"),
        Is("refuse"),
        "What happens to a login that the process has not decided: refuse or accept",
    ),
];
