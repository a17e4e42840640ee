//! `encke-lab compare`: benchmarks of a push server, beside a minimal one and its peers.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::flood::{self, arguments::ClientArguments};
use crate::server_program;
use bench::config::{BenchConfig, tables_for};
use bench::processes::OWN_NUMBER;
use bench::report::Report;
use bench::{changes, child, connect, fairness, fanout, memory, publish, resume, tls};
use clap::{Args, Subcommand};
use cli::failure::Failure;
use load::bare;
use load::flood::driven;
use machine::failure::{Context, Outcome};

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
    BareAsk(bare::ask::Options),
    /// Open streaming clients; answer commands on standard input with their counters
    Clients(Box<ClientArguments>),
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

/// Runs a command. With `--strict` a bound that is missed is a failure.
pub(crate) fn run(arguments: CompareArguments) -> Result<(), Failure> {
    match arguments.command {
        Command::BareHold(options) => {
            let (input, output) = (io::stdin().lock(), io::stdout().lock());
            Ok(bare::run(&options, input, output)?)
        }
        Command::BareClients(options) => {
            let (input, output) = (io::stdin().lock(), io::stdout().lock());
            Ok(bare::clients::run(&options, input, output)?)
        }
        Command::BareEcho(args) => Ok(bare::echo(args.listen)?),
        Command::BareAsk(args) => {
            let answers = bare::ask::run(&args)?;
            let text = serde_json::to_string(&answers).context("writing JSON")?;
            println!("{text}");
            Ok(())
        }
        Command::Clients(args) => {
            let options = flood::options(&args)?;
            let friends = None::<fn() -> Outcome<Box<dyn io::BufRead>>>;
            let (input, output) = (io::stdin().lock(), io::stdout().lock());
            Ok(driven::run(&options, friends, input, output)?)
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
    fn write_report(&self, report: &Report) -> Result<(), Failure> {
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
        if self.strict && report.missed().next().is_some() {
            let sentence = "a bound was missed; the table says which";
            return Err(Failure::failed(sentence));
        }
        Ok(())
    }
}
