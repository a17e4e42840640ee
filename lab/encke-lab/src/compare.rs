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
    BareHold(bare::Options),
    /// Minimal clients: connect, send a request, wait for the first bytes, hold
    BareClients(bare::clients::Options),
    /// Echo server: a backend for a proxy
    BareEcho(BareEcho),
    /// Send requests and await the answers on each connection; print their number and latency
    BareAsk(BareAsk),
    /// Open streaming clients; answer commands on standard input with their counters
    Clients(ClientsArgs),
    /// Memory of a session, compared with the bare server
    Memory(Benchmark<memory::Parameters>),
    /// Connect rate, compared with the bare server in alternating ramps
    Connect(Benchmark<connect::Parameters>),
    /// CPU time of a delivered event, compared with a bare loop of `send`
    Fanout(Benchmark<fanout::Parameters>),
    /// Latency of an event to one user while another subject is busy
    Fairness(Benchmark<fairness::Parameters>),
    /// Batch publish and a popular subject, with no client online
    Publish(Benchmark<publish::Parameters>),
    /// Durable changes of the graph, one edge a request, and the start time
    Changes(Benchmark<changes::Parameters>),
    /// Handshakes, memory, events and a storm of handshakes: TLS, plain, and nginx with nchan
    Tls(Benchmark<tls::Parameters>),
    /// Sessions that resume: with nothing missed, and with events to catch up, compared with nginx
    /// with nchan
    Resume(Benchmark<resume::Parameters>),
    /// Opening, memory and reading of the flood's own clients, compared with minimal ones
    Flood(Benchmark<bench::flood::Parameters>),
}

/// Arguments of a benchmark: those of all, and its own.
#[derive(Debug, Args)]
struct Benchmark<Parameters: Args> {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    parameters: Parameters,
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
        Command::BareHold(options) => {
            bare::run(&options, io::stdin().lock(), io::stdout().lock()).map(|()| true)
        }
        Command::BareClients(options) => {
            bare::clients::run(&options, io::stdin().lock(), io::stdout().lock()).map(|()| true)
        }
        Command::BareEcho(args) => bare::echo::run(args.listen).map(|()| true),
        Command::BareAsk(args) => {
            let answers = bare::ask::run(&args.options())?;
            let text = serde_json::to_string(&answers).context("writing JSON")?;
            println!("{text}");
            Ok(true)
        }
        Command::Clients(args) => {
            let options = args.options()?;
            let friends = None::<fn() -> Outcome<Box<dyn io::BufRead>>>;
            let (input, output) = (io::stdin().lock(), io::stdout().lock());
            flood::driven::run(&options, friends, input, output).map(|()| true)
        }
        Command::Memory(Benchmark { common, parameters }) => {
            let mut setting = common.prepare(parameters.connections)?;
            setting.websocket = parameters.websocket;
            setting.ids = parameters.ids;
            common.write_report(&memory::run(&setting)?)
        }
        Command::Connect(Benchmark { common, parameters }) => {
            let setting = common.prepare(parameters.connections)?;
            common.write_report(&connect::run(&setting, &parameters)?)
        }
        Command::Fanout(Benchmark { common, parameters }) => {
            let mut setting = common.prepare(parameters.connections)?;
            setting.websocket = parameters.websocket;
            common.write_report(&fanout::run(&setting, &parameters)?)
        }
        Command::Fairness(Benchmark { common, parameters }) => {
            let setting = common.prepare(parameters.connections)?;
            common.write_report(&fairness::run(&setting, &parameters)?)
        }
        Command::Publish(Benchmark { common, parameters }) => {
            common.write_report(&publish::run(&common.prepare(1)?, &parameters)?)
        }
        Command::Changes(Benchmark { common, parameters }) => {
            common.write_report(&changes::run(&common.prepare(1)?, &parameters)?)
        }
        Command::Tls(Benchmark { common, parameters }) => {
            let setting = common.prepare_single(parameters.connections)?;
            common.write_report(&tls::run(&setting, &parameters)?)
        }
        Command::Resume(Benchmark { common, parameters }) => {
            let setting = common.prepare_single(parameters.connections)?;
            common.write_report(&resume::run(&setting, &parameters)?)
        }
        Command::Flood(Benchmark { common, parameters }) => {
            let mut setting = common.prepare_single(parameters.connections)?;
            // One thread, which is one core, likewise.
            if parameters.connections <= bench::flood::CLIENTS_OF_ONE_TABLE {
                setting.threads = common.threads.unwrap_or(1);
            }
            common.write_report(&bench::flood::run(&setting, &parameters)?)
        }
    }
}

impl BareAsk {
    fn options(&self) -> bare::ask::Options {
        bare::ask::Options {
            server: self.server,
            connections: self.connections.max(1),
            duration: self.duration,
            question: match self.ask {
                Asked::Echo => bare::ask::Question::Echo(self.size),
                Asked::Http => bare::ask::Question::Http,
                Asked::HttpOnce => bare::ask::Question::HttpOnce,
            },
        }
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
            resumption: Resumption::of(self.tls_resume),
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
    /// Prepares a benchmark with so many connections. The processes that it starts end with this
    /// one.
    fn prepare(&self, connections: u32) -> Outcome<BenchConfig> {
        child::clean_up_on_interrupt()?;
        let tables = tables_for(connections);
        Ok(BenchConfig {
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
        })
    }

    /// The same with one worker, as nginx has one, if one descriptor table is enough.
    fn prepare_single(&self, connections: u32) -> Outcome<BenchConfig> {
        let mut setting = self.prepare(connections)?;
        if connections <= bench::flood::CLIENTS_OF_ONE_TABLE {
            setting.workers = self.workers.unwrap_or(1);
        }
        Ok(setting)
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
