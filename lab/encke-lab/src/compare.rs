//! `encke-lab compare`: benchmarks of a push server, beside a minimal one and its peers.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::flood::arguments::TRANSPORTS;
use crate::server_program;
use bench::config::{BenchConfig, tables_for};
use bench::processes::OWN_NUMBER;
use bench::report::Report;
use bench::{changes, child, connect, fairness, fanout, memory, publish, resume, tls};
use clap::{Args, Subcommand, ValueEnum};
use cli::arguments::transport;
use cli::units::duration;
use client::decode::Transport;
use client::tls::{Authorities, Resumption};
use load::flood::behaviours::ClientBehaviours;
use load::flood::credentials::{Credentials, TokenSigner};
use load::flood::sources::Sources;
use load::flood::targets::Targets;
use load::{bare, flood};
use machine::clock::realtime_nanos;
use machine::failure::{Context, Outcome};

/// Validity of the clients' tokens, longer than any benchmark.
const TOKEN_SECONDS: u64 = 24 * 60 * 60;

/// Least time of a measurement.
const DURATION_MIN: Duration = Duration::from_secs(1);

pub(crate) const HELP: &str = "\
Measures one property of a push server, and of a minimal server that does the same system calls and
nothing else. What is printed is a table; --markdown appends it to a file.

Example:
  encke-lab compare memory --server target/release/encke";

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Minimal server: accept, read, send a fixed head, hold; execute `fanout ROUNDS SIZE RATE`
    /// lines on standard input
    BareHold(BareHold),
    /// Minimal clients: connect, send a request, wait for the first bytes, hold
    BareClients(BareClientsArgs),
    /// Echo server: a backend for a proxy
    BareEcho(BareEcho),
    /// Send requests and await the answers on each connection; print their number and latency
    BareAsk(BareAsk),
    /// Open streaming clients; answer commands on standard input with their counters
    Clients(ClientsArgs),
    /// Memory of a session, compared with the bare server
    Memory(MemoryArgs),
    /// Connect rate, compared with the bare server in alternating ramps
    Connect(ConnectArgs),
    /// CPU time of a delivered event, compared with a bare loop of `send`
    Fanout(FanoutArgs),
    /// Latency of an event to one user while another subject is busy
    Fairness(FairnessArgs),
    /// Batch publish and a popular subject, with no client online
    Publish(PublishArgs),
    /// Durable changes of the graph, one edge a request, and the start time
    Changes(ChangesArgs),
    /// Handshakes, memory, events and a storm of handshakes: TLS, plain, and nginx with nchan
    Tls(TlsArgs),
    /// Sessions that resume: with nothing missed, and with events to catch up, compared with nginx
    /// with nchan
    Resume(ResumeArgs),
    /// Opening, memory and reading of the flood's own clients, compared with minimal ones
    Flood(FloodArgs),
}

#[derive(Debug, Args)]
struct BareHold {
    /// Address to listen on
    #[arg(long, default_value_t = bare::default_address())]
    listen: SocketAddr,
    /// Worker threads
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Give each worker its own descriptor table
    #[arg(long)]
    private_fds: bool,
}

#[derive(Debug, Args)]
struct BareClientsArgs {
    /// Address of the server, on loopback
    server: SocketAddr,
    /// Number of clients
    #[arg(long, default_value_t = 1000)]
    connections: u32,
    /// Threads, each with its own descriptor table
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Most clients that await their first answer at a time, over all threads
    #[arg(long, default_value_t = 1024)]
    window: u32,
}

#[derive(Debug, Args)]
struct BareEcho {
    /// Address to listen on
    #[arg(long, default_value_t = bare::default_address())]
    listen: SocketAddr,
}

#[derive(Debug, Args)]
struct BareAsk {
    /// Address of the server, on loopback
    server: SocketAddr,
    /// Clients, each with one request at a time
    #[arg(long, default_value_t = 100)]
    connections: u32,
    /// Time for which requests are sent
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    duration: Duration,
    /// Kind of request: echo, http, or http-once, which uses a new connection for each request
    #[arg(long, default_value = "echo")]
    ask: Asked,
    /// Bytes of an echo request
    #[arg(long, default_value_t = 64)]
    size: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Asked {
    Echo,
    Http,
    HttpOnce,
}

#[derive(Debug, Args)]
struct ClientsArgs {
    /// URL to request; {n} becomes the client's number
    url: String,
    /// Number of clients
    #[arg(long, default_value_t = 1000)]
    connections: u32,
    /// Number of the first client
    #[arg(long, default_value_t = 0)]
    first: u32,
    /// Threads
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Give each thread its own descriptor table
    #[arg(long)]
    private_fds: bool,
    /// Most clients that await their first answer at a time, over all threads
    #[arg(long, default_value_t = 1024)]
    window: u32,
    /// How the server streams events
    #[arg(long, default_value_t = Transport::Sse, value_parser = transport(&TRANSPORTS))]
    transport: Transport,
    /// Source addresses
    #[arg(long, default_value = "127.1.0.0/16")]
    source: Sources,
    /// PEM file of the certificate authorities to trust, for an https URL
    #[arg(long)]
    ca: Option<PathBuf>,
    /// Resume TLS sessions of earlier clients
    #[arg(long)]
    tls_resume: bool,
    /// Sign a token for each client with this secret
    #[arg(long)]
    jwt_secret_file: Option<PathBuf>,
    /// A header line to add to each request; repeatable
    #[arg(long = "header")]
    headers: Vec<String>,
    /// Disconnect as soon as the stream is open, and reconnect
    #[arg(long)]
    reconnect: bool,
}

#[derive(Debug, Args)]
struct Common {
    /// Program of the server [default: the `encke` beside this program, or that in the PATH]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Workers of the server and of the bare server; by default as many as the clients' descriptors
    /// need
    #[arg(long)]
    workers: Option<u32>,
    /// Client threads; by default as many as their descriptors need
    #[arg(long)]
    threads: Option<u32>,
    /// Most clients that await their first answer at a time
    #[arg(long, default_value_t = 1024)]
    window: u32,
    /// JSON pointer into /v1/stats to counters of system calls; repeatable. A turn is one wait for
    /// events
    #[arg(long, default_values_t = ["/totals/system_calls", "/totals/turns"].map(String::from))]
    calls: Vec<String>,
    /// Use one descriptor table for all workers (no --private-fds)
    #[arg(long)]
    shared_fds: bool,
    /// Argument to pass to `serve`; repeatable
    #[arg(long = "serve-arg", allow_hyphen_values = true)]
    serve_args: Vec<String>,
    /// File to write the results to as JSON
    #[arg(short, long, alias = "json", value_name = "FILE")]
    output: Option<PathBuf>,
    /// File to append the results to as Markdown
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Exit with status 1 if a result misses its bound
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Args)]
struct MemoryArgs {
    #[command(flatten)]
    common: Common,
    /// Sessions
    #[arg(long, default_value_t = 1_000_000)]
    connections: u32,
    // Clap takes `{n}` for a line break; it does not find it around an escape sequence.
    #[arg(
        long,
        default_value = OWN_NUMBER,
        hide_default_value = true,
        help = "Ids of each client, in which {\x1b[0mn} is its number: user-{\x1b[0mn}, or \
                {\x1b[0mn},room-{\x1b[0mn},team-{\x1b[0mn}. No events are published unless it \
                is the number alone, which is the default"
    )]
    ids: String,
    /// The server's clients are WebSockets, not Server-Sent Events
    #[arg(long)]
    websocket: bool,
}

#[derive(Debug, Args)]
struct ConnectArgs {
    #[command(flatten)]
    common: Common,
    /// Sessions of a ramp
    #[arg(long, default_value_t = 200_000)]
    connections: u32,
    /// Pairs of ramps counted
    #[arg(long, default_value_t = 5)]
    pairs: u32,
}

#[derive(Debug, Args)]
struct FanoutArgs {
    #[command(flatten)]
    common: Common,
    /// Sessions
    #[arg(long, default_value_t = 18_000)]
    connections: u32,
    /// Rounds counted
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Events to all clients in a round
    #[arg(long, default_value_t = 10)]
    events: u32,
    /// The server's clients are WebSockets, not Server-Sent Events
    #[arg(long)]
    websocket: bool,
}

#[derive(Debug, Args)]
struct FairnessArgs {
    #[command(flatten)]
    common: Common,
    /// Sessions
    #[arg(long, default_value_t = 18_000)]
    connections: u32,
    /// Duration
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration)]
    duration: Duration,
    /// Events a second to each measured user
    #[arg(long, default_value_t = 100)]
    rate: u32,
}

#[derive(Debug, Args)]
struct PublishArgs {
    #[command(flatten)]
    common: Common,
    /// Events in a batch
    #[arg(long, default_value_t = 1_000_000)]
    events: u32,
    /// Batches
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Subscribers of the popular subject
    #[arg(long, default_value_t = 1_000_000)]
    subscribers: u32,
    /// Publishes about the popular subject
    #[arg(long, default_value_t = 100)]
    publishes: u32,
}

#[derive(Debug, Args)]
struct ChangesArgs {
    #[command(flatten)]
    common: Common,
    /// Data directory, created if missing; changes stay in it
    #[arg(long)]
    data: PathBuf,
    /// Clients, each with its own connection
    #[arg(long, default_value_t = 64)]
    clients: u32,
    /// Changes of each client
    #[arg(long, default_value_t = 2000)]
    changes: u32,
}

#[derive(Debug, Args)]
struct ResumeArgs {
    #[command(flatten)]
    common: Common,
    /// Sessions
    #[arg(long, default_value_t = 10_000)]
    connections: u32,
    /// Rounds of each kind
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Events that each session has missed
    #[arg(long, default_value_t = 100)]
    missed: u32,
    /// Subjects that each session follows in the rounds with nothing missed
    #[arg(long, default_value_t = 200)]
    follows: u32,
    /// Events about other subjects published meanwhile
    #[arg(long, default_value_t = 100_000)]
    behind: u32,
    /// Do not compare with nginx
    #[arg(long)]
    alone: bool,
    /// Program of nginx, for which Debian's nchan module is installed
    #[arg(long, default_value = "/usr/sbin/nginx")]
    nginx: PathBuf,
    /// Program of Centrifugo 5, to compare with it
    #[arg(long)]
    centrifugo: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct TlsArgs {
    #[command(flatten)]
    common: Common,
    /// Sessions of a ramp, and of the memory part
    #[arg(long, default_value_t = 16_000)]
    connections: u32,
    /// Parts to measure
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "handshakes,memory,events,storm"
    )]
    parts: Vec<TlsPart>,
    /// Rounds of handshakes, and of events
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Sessions that receive events
    #[arg(long, default_value_t = 4_000)]
    listeners: u32,
    /// Events to all clients in a round
    #[arg(long, default_value_t = 100)]
    events: u32,
    /// Seconds without the storm, and with it
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Servers to compare
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "plain,tokens,tls,rustls,nginx"
    )]
    peers: Vec<TlsPeer>,
    /// Program of nginx, for which Debian's nchan module is installed
    #[arg(long, default_value = "/usr/sbin/nginx")]
    nginx: PathBuf,
}

/// Server to compare.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum TlsPeer {
    /// Encke without TLS
    Plain,
    /// Encke without TLS, with a token for each client; only handshakes
    Tokens,
    /// Encke with TLS
    Tls,
    /// Encke with TLS, every record handled by rustls
    Rustls,
    /// nginx with nchan
    Nginx,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TlsPart {
    Handshakes,
    Memory,
    Events,
    Storm,
}

#[derive(Debug, Args)]
struct FloodArgs {
    #[command(flatten)]
    common: Common,
    /// Clients
    #[arg(long, default_value_t = 18_000)]
    connections: u32,
    /// Openings of each kind
    #[arg(long, default_value_t = 5)]
    openings: u32,
    /// Sends to every client in a run of the reading part; 0 skips that part
    #[arg(long, default_value_t = 30)]
    sends: u32,
    /// Runs of the reading part counted
    #[arg(long, default_value_t = 5)]
    rounds: u32,
}

/// Runs a benchmark. With `--strict` a bound that is missed is a failure.
pub(crate) fn run(arguments: CompareArguments) -> Result<(), cli::failure::Failure> {
    match measure(arguments.command)? {
        true => Ok(()),
        false => Err(cli::failure::Failure::failed(
            "a bound was missed; the table says which",
        )),
    }
}

/// Runs a command. Returns false if `--strict` was given and a bound is missed.
fn measure(command: Command) -> Outcome<bool> {
    match command {
        Command::BareHold(args) => {
            let BareHold {
                listen,
                workers,
                private_fds,
            } = args;
            let options = bare::Options {
                listen,
                workers,
                private_fds,
            };
            bare::run(&options, io::stdin().lock(), io::stdout().lock()).map(|()| true)
        }
        Command::BareClients(args) => {
            let options = bare::clients::Options {
                server: args.server,
                connections: args.connections,
                threads: args.threads.max(1),
                window: args.window,
            };
            bare::clients::run(&options, io::stdin().lock(), io::stdout().lock()).map(|()| true)
        }
        Command::BareEcho(args) => bare::echo::run(args.listen).map(|()| true),
        Command::BareAsk(args) => {
            let answers = bare::ask::run(&args.options()?)?;
            println!(
                "{}",
                serde_json::to_string(&answers).context("writing JSON")?
            );
            Ok(true)
        }
        Command::Flood(args) => {
            child::clean_up_on_interrupt()?;
            let extent = bench::flood::Parameters {
                openings: args.openings.max(1),
                sends: args.sends,
                rounds: args.rounds.max(1),
            };
            let mut setting = args.common.setting(args.connections);
            // Use one thread, which is one core, if one descriptor table is enough.
            if args.connections <= bench::flood::CLIENTS_OF_ONE_TABLE {
                setting.threads = args.common.threads.unwrap_or(1);
                setting.workers = args.common.workers.unwrap_or(1);
            }
            args.common
                .write_report(&bench::flood::run(&setting, extent)?)
        }
        Command::Tls(args) => {
            child::clean_up_on_interrupt()?;
            let mut setting = args.common.setting(args.connections);
            // Use one worker, as nginx has one, if one descriptor table is enough.
            if args.connections <= bench::flood::CLIENTS_OF_ONE_TABLE {
                setting.workers = args.common.workers.unwrap_or(1);
            }
            args.common
                .write_report(&tls::run(&setting, &args.parameters())?)
        }
        Command::Resume(args) => {
            child::clean_up_on_interrupt()?;
            let mut setting = args.common.setting(args.connections);
            // Use one worker, as nginx has one, if one descriptor table is enough.
            if args.connections <= bench::flood::CLIENTS_OF_ONE_TABLE {
                setting.workers = args.common.workers.unwrap_or(1);
            }
            let extent = resume::Parameters {
                rounds: args.rounds.max(1),
                missed: args.missed.max(1),
                follows: args.follows,
                behind: args.behind,
                nginx: (!args.alone).then_some(args.nginx),
                centrifugo: args.centrifugo,
            };
            args.common.write_report(&resume::run(&setting, &extent)?)
        }
        Command::Clients(args) => {
            let options = args.options()?;
            let friends = None::<fn() -> Outcome<Box<dyn io::BufRead>>>;
            let (input, output) = (io::stdin().lock(), io::stdout().lock());
            flood::driven::run(&options, friends, input, output).map(|()| true)
        }
        Command::Memory(args) => {
            child::clean_up_on_interrupt()?;
            let mut setting = args.common.setting(args.connections);
            setting.websocket = args.websocket;
            setting.ids = args.ids;
            args.common.write_report(&memory::run(&setting)?)
        }
        Command::Connect(args) => {
            child::clean_up_on_interrupt()?;
            let setting = args.common.setting(args.connections);
            args.common
                .write_report(&connect::run(&setting, args.pairs.max(1))?)
        }
        Command::Fanout(args) => {
            child::clean_up_on_interrupt()?;
            let mut setting = args.common.setting(args.connections);
            setting.websocket = args.websocket;
            let extent = fanout::Parameters {
                rounds: args.rounds.max(1),
                events: args.events.max(1),
            };
            args.common.write_report(&fanout::run(&setting, extent)?)
        }
        Command::Fairness(args) => {
            child::clean_up_on_interrupt()?;
            let setting = args.common.setting(args.connections);
            let extent = fairness::Parameters {
                duration: args.duration.max(DURATION_MIN),
                rate: args.rate.max(1),
            };
            args.common.write_report(&fairness::run(&setting, extent)?)
        }
        Command::Changes(args) => {
            child::clean_up_on_interrupt()?;
            let setting = args.common.setting(1);
            let extent = changes::Parameters {
                data: args.data,
                clients: args.clients.max(1),
                changes: args.changes.max(1),
            };
            args.common.write_report(&changes::run(&setting, &extent)?)
        }
        Command::Publish(args) => {
            child::clean_up_on_interrupt()?;
            let setting = args.common.setting(1);
            let extent = publish::Parameters {
                events: args.events,
                rounds: args.rounds.max(1),
                subscribers: args.subscribers,
                publishes: args.publishes.max(1),
            };
            args.common.write_report(&publish::run(&setting, extent)?)
        }
    }
}

impl TlsArgs {
    fn parameters(&self) -> tls::Parameters {
        let parts = self.parts.iter().map(|part| match part {
            TlsPart::Handshakes => tls::Part::Handshakes,
            TlsPart::Memory => tls::Part::Memory,
            TlsPart::Events => tls::Part::Events,
            TlsPart::Storm => tls::Part::Storm,
        });
        let kinds = self.peers.iter().map(|peer| match peer {
            TlsPeer::Plain => tls::Kind::Plain,
            TlsPeer::Tokens => tls::Kind::PlainWithTokens,
            TlsPeer::Tls => tls::Kind::Tls,
            TlsPeer::Rustls => tls::Kind::TlsByRustls,
            TlsPeer::Nginx => tls::Kind::Nginx,
        });
        tls::Parameters {
            parts: parts.collect(),
            kinds: kinds.collect(),
            rounds: self.rounds.max(1),
            listeners: self.listeners.max(1),
            events: self.events.max(1),
            storm: self.duration.max(DURATION_MIN),
            nginx: self.nginx.clone(),
        }
    }
}

impl BareAsk {
    fn options(&self) -> Outcome<bare::ask::Options> {
        Ok(bare::ask::Options {
            server: self.server,
            connections: self.connections.max(1),
            duration: self.duration,
            question: match self.ask {
                Asked::Echo => bare::ask::Question::Echo(self.size),
                Asked::Http => bare::ask::Question::Http,
                Asked::HttpOnce => bare::ask::Question::HttpOnce,
            },
        })
    }
}

impl ClientsArgs {
    fn options(self) -> Outcome<flood::Options> {
        let targets = Targets::one(&self.url)?;
        let credentials = match &self.jwt_secret_file {
            None => Credentials::None,
            Some(path) => {
                let secret = fs::read(path).context(format_args!("reading {}", path.display()))?;
                let end = realtime_nanos() / 1_000_000_000 + TOKEN_SECONDS;
                let claims = [("exp".to_owned(), end.into())].into_iter().collect();
                Credentials::Signed(Box::new(TokenSigner::new(&secret, claims)?))
            }
        };
        Ok(flood::Options {
            first: self.first,
            threads: Some(self.threads),
            private_fds: self.private_fds,
            window: self.window,
            sources: Some(self.source),
            authorities: Authorities::new(self.ca.as_deref()),
            credentials,
            headers: self.headers,
            resumption: if self.tls_resume {
                Resumption::Tickets
            } else {
                Resumption::Never
            },
            behaviours: ClientBehaviours {
                reconnect: if self.reconnect { self.connections } else { 0 },
                every: Duration::from_millis(1),
                ..ClientBehaviours::default()
            },
            ..flood::Options::new(targets, self.url, self.connections, self.transport)
        })
    }
}

impl Common {
    fn setting(&self, connections: u32) -> BenchConfig {
        let tables = tables_for(connections);
        BenchConfig {
            server: server_program::find(self.server.as_deref()),
            connections,
            workers: self.workers.unwrap_or(tables),
            threads: self.threads.unwrap_or(tables),
            window: self.window,
            calls_pointers: self.calls.clone(),
            private_fds: !self.shared_fds,
            websocket: false,
            ids: OWN_NUMBER.to_owned(),
            server_arguments: self.serve_args.clone(),
        }
    }

    /// Prints the report and writes the files asked for.
    fn write_report(&self, report: &Report) -> Outcome<bool> {
        print!("{}", report.table());
        if let Some(path) = &self.output {
            let text = serde_json::to_string_pretty(report).context("writing JSON")?;
            fs::write(path, text + "\n").context(format_args!("writing {}", path.display()))?;
        }
        if let Some(path) = &self.markdown {
            fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .and_then(|mut file| writeln!(file, "{}", report.markdown()))
                .context(format_args!("writing {}", path.display()))?;
        }
        Ok(!self.strict || report.missed().next().is_none())
    }
}
