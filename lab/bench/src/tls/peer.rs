//! Common interface of the compared servers: where clients connect, how to publish, and its cost.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use client::control_client::{ControlClient, EventMetadata};
use client::http::{Connection, Url};
use machine::failure::{Context, Outcome};
use machine::host;

use super::certificate::Certificate;
use crate::child::Server;
use crate::config::{BenchConfig, PER_TABLE, counters};
use crate::nginx::{self, Nginx};
use crate::processes::{Clients, Side};

/// Validity of the clients' tokens, longer than any benchmark.
const TOKEN_TTL: &str = "1d";

/// Kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Encke without TLS
    Plain,
    /// Encke without TLS, with a token for each client; only handshakes
    #[value(name = "tokens")]
    PlainWithTokens,
    /// Encke with TLS
    Tls,
    /// Encke with TLS, every record handled by rustls
    #[value(name = "rustls")]
    TlsByRustls,
    /// nginx with nchan
    Nginx,
}

impl Kind {
    /// Returns its name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::PlainWithTokens => "plain, with tokens",
            Self::Tls => "TLS",
            Self::TlsByRustls => "TLS, records by rustls",
            Self::Nginx => "nginx + nchan, TLS",
        }
    }

    /// Whether its clients use TLS.
    pub(super) fn is_secure(self) -> bool {
        !matches!(self, Self::Plain | Self::PlainWithTokens)
    }
}

/// All compared servers, and what is needed to start one.
#[derive(Debug, Clone)]
pub(super) struct Peers<'a> {
    pub(super) setting: &'a BenchConfig,
    pub(super) certificate: &'a Certificate,
    pub(super) nginx: &'a Path,
    pub(super) kinds: Vec<Kind>,
}

/// Running server.
#[derive(Debug)]
pub(super) struct Peer<'a> {
    pub(super) kind: Kind,
    peers: &'a Peers<'a>,
    running: Running,
    streams: SocketAddr,
}

#[derive(Debug)]
enum Running {
    Encke(Server),
    Nginx { nginx: Nginx, publishers: Url },
}

/// Connection of a publisher.
pub(super) enum Publisher {
    Encke(Box<ControlClient>),
    Nginx(Box<Connection>),
}

impl Peers<'_> {
    /// Returns the number of sessions that it gets: the configured number, or what its descriptor
    /// table allows.
    pub(super) fn connections(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Nginx => self.setting.connections.min(PER_TABLE),
            _ => self.setting.connections,
        }
    }

    /// Starts a server.
    pub(super) fn start(&self, kind: Kind) -> Outcome<Peer<'_>> {
        // Of another range than the addresses of `Server::start`.
        let mut streams = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .context("finding a free port")?;
        let publishers = host::free_loopback_address()?;
        let running = match kind {
            Kind::Nginx => Running::Nginx {
                nginx: self.start_nginx(streams, publishers)?,
                publishers: Url::parse(&format!("http://{publishers}"))?,
            },
            _ => {
                let server = self.start_encke(kind, streams)?;
                if !kind.is_secure() {
                    streams = server.public;
                }
                Running::Encke(server)
            }
        };
        Ok(Peer {
            kind,
            peers: self,
            running,
            streams,
        })
    }

    /// Starts nginx without stored messages, with streams over TLS and a plain listener for
    /// publishers.
    fn start_nginx(&self, streams: SocketAddr, publishers: SocketAddr) -> Outcome<Nginx> {
        let servers = format!(
            "server {{ listen {streams} ssl backlog=65535;\n\
             ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;\n\
             location ~ ^/events/(.+)$ {{ nchan_subscriber eventsource;\n\
             nchan_channel_id $1; }} }}\n\
             server {{ listen {publishers};\n\
             location ~ ^/publish/(.+)$ {{ nchan_publisher; nchan_channel_id $1;\n\
             nchan_store_messages off; }} }}\n",
            chain = self.certificate.chain().display(),
            key = self.certificate.key().display(),
        );
        Nginx::start(self.nginx, &servers, streams)
    }

    fn start_encke(&self, kind: Kind, streams: SocketAddr) -> Outcome<Server> {
        let mut setting = self.setting.clone();
        let path = |path: PathBuf| path.display().to_string();
        let mut add = |flag: &str, value| {
            setting.server_arguments.extend([flag.to_owned(), value]);
        };
        if kind.is_secure() {
            add("--tls-listen", streams.to_string());
            add("--tls-cert", path(self.certificate.chain()));
            add("--tls-key", path(self.certificate.key()));
        }
        match kind {
            Kind::PlainWithTokens => add("--jwt-secret-file", path(self.certificate.secret())),
            Kind::TlsByRustls => setting
                .server_arguments
                .push("--tls-keep-rustls".to_owned()),
            _ => {}
        }
        setting.start_server()
    }
}

impl Peer<'_> {
    /// Starts to open clients of `path`, in which `{n}` is the client's number.
    pub(super) fn clients(
        &self,
        side: Side,
        path: &str,
        first: u32,
        connections: u32,
        flags: &[&str],
    ) -> Outcome<Clients> {
        let scheme = if self.kind.is_secure() {
            "https"
        } else {
            "http"
        };
        let url = format!("{scheme}://{}{path}", self.streams);
        let certificate = self.peers.certificate;
        let mut flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let mut add = |flag: &str, file: PathBuf| {
            flags.extend([flag.to_owned(), file.display().to_string()]);
        };
        add("--ca", certificate.chain());
        if self.kind == Kind::PlainWithTokens {
            add("--jwt-secret-file", certificate.secret());
            flags.extend(["--jwt-ttl", TOKEN_TTL].map(str::to_owned));
        }
        Clients::open(self.peers.setting, side, &url, first, connections, &flags)
    }

    /// Opens a connection for publishing.
    pub(super) fn publisher(&self) -> Outcome<Publisher> {
        match &self.running {
            Running::Encke(server) => Ok(Publisher::Encke(Box::new(server.control()?))),
            Running::Nginx { publishers, .. } => {
                let connection =
                    Connection::open(publishers, None).context("connecting to nginx")?;
                Ok(Publisher::Nginx(Box::new(connection)))
            }
        }
    }

    /// Returns the number of system calls so far, if the server counts them.
    pub(super) fn calls(&self) -> Outcome<Option<f64>> {
        match &self.running {
            Running::Encke(server) => {
                let stats = server.control()?.stats()?;
                Ok(counters(&stats, &self.peers.setting.calls_pointers))
            }
            Running::Nginx { .. } => Ok(None),
        }
    }

    /// Returns the process id.
    pub(super) fn pid(&self) -> u32 {
        match &self.running {
            Running::Encke(server) => server.pid(),
            Running::Nginx { nginx, .. } => nginx.pid(),
        }
    }
}

impl Publisher {
    /// Publishes an event and waits for the answer. Encke answers early, before the workers have
    /// written it.
    pub(super) fn publish(&mut self, subject: u32, payload: &[u8]) -> Outcome<()> {
        match self {
            Self::Encke(control) => control.publish_early(&subject.to_string(), payload),
            Self::Nginx(connection) => nginx::publish(connection, &subject.to_string(), payload),
        }
    }

    /// Publishes an event and waits until it is written to all clients, if the server can tell.
    pub(super) fn publish_and_await(&mut self, subject: u32, payload: &[u8]) -> Outcome<()> {
        match self {
            Self::Encke(control) => control
                .publish(&subject.to_string(), payload, EventMetadata::default())
                .map(drop),
            Self::Nginx(connection) => nginx::publish(connection, &subject.to_string(), payload),
        }
    }
}
