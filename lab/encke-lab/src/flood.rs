//! `encke-lab flood`: opens many clients. The report goes to standard output, progress to standard
//! error.

/// Arguments of the command.
pub(crate) mod arguments;

use std::fmt::Display;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use cli::failure::Failure;
use cli::progress::ProgressBar;
use cli::units::{human_count, human_size};
use client::decode::Transport;
use client::tls::Resumption;
use load::flood::credentials::{Credentials, TokenSigner};
use load::flood::order::Check;
use load::flood::report::Report;
use load::flood::targets::Targets;
use load::flood::watch::{self, Progress};
use load::flood::{Flood, Options};
use machine::interrupt::Interrupt;

use arguments::{ClientArguments, CredentialArguments, FloodArguments};

/// Opens the clients, keeps them open, and prints the report.
pub(crate) fn run(arguments: &FloodArguments) -> Result<(), Failure> {
    let options = options(&arguments.clients)?;
    let interrupt = Interrupt::catch()?;
    let progress = ProgressBar::of(options.connections.into(), "clients");
    let mut printer = ProgressPrinter {
        progress: &progress,
        connections: options.connections,
        is_settled: false,
        has_explained: false,
    };
    let tell = |flood: &Flood, news: &Progress| printer.tell(flood, news);
    let (until, expectations) = (&arguments.until, &arguments.expectations);
    let report = watch::run(&options, until, expectations, &interrupt, tell);
    progress.end();
    conclude(&report?, arguments)
}

/// Prints the report. Fails if it has a failure.
fn conclude(report: &Report, arguments: &FloodArguments) -> Result<(), Failure> {
    for failure in &report.totals.failures {
        eprintln!("warning: {failure}");
    }
    let table = || report.table().trim_end().to_owned();
    arguments.report.print(report, table)?;
    let unmet_expectations: Vec<&str> = report.unmet_expectations().collect();
    if !unmet_expectations.is_empty() {
        return Err(Failure::failed(unmet_expectations.join("; ")));
    }
    let is_empty = report.totals.counts.heads == 0 && report.totals.counts.failed > 0;
    if is_empty {
        return Err(Failure::failed("no client could be opened"));
    }
    Ok(())
}

/// Printer of the progress, as lines and a bar.
struct ProgressPrinter<'a> {
    progress: &'a ProgressBar,
    connections: u32,
    is_settled: bool,
    has_explained: bool,
}

impl ProgressPrinter<'_> {
    fn tell(&mut self, flood: &Flood, news: &Progress) {
        if !std::mem::replace(&mut self.has_explained, true) {
            self.progress.say(flood.explain());
        }
        let counts = &news.totals.counts;
        if news.elapsed.as_secs() > 0 {
            self.progress.say(line(news, self.connections));
        }
        if !news.settled {
            self.progress.reach(counts.heads + counts.failed);
        } else if !std::mem::replace(&mut self.is_settled, true) {
            self.progress.end();
        }
    }
}

/// Returns the progress line of one second.
fn line(news: &Progress, connections: u32) -> String {
    let (totals, counts) = (&news.totals, &news.totals.counts);
    let mut line = format!(
        "{:>5} s  {{{},{},{}}}  {} of {} open, {} events, {} a second, {}",
        news.elapsed.as_secs(),
        totals.active,
        totals.closed,
        counts.chunks,
        human_count(totals.active),
        human_count(connections.into()),
        human_count(counts.events),
        human_count(news.events_per_second.round() as u64),
        human_size(counts.bytes),
    );
    if counts.failed > 0 {
        line.push_str(&format!(", {} failed", human_count(counts.failed)));
    }
    if totals.latency.count > 0 {
        line.push_str(&format!(", p99 {:.3} ms", totals.latency.p99_us / 1000.0));
    }
    line
}

/// Returns the options of the clients.
pub(crate) fn options(arguments: &ClientArguments) -> Result<Options, Failure> {
    let (targets, name) = targets(arguments)?;
    let connections = arguments.connections.unwrap_or(match arguments.urls {
        Some(_) => targets.count(),
        None => 1000,
    });
    let behaviours = arguments.behaviours;
    if behaviours.count() > connections {
        return Err(Failure::misused(format_args!(
            "{} bad citizens are more than the {connections} clients they are among: give more \
             --connections",
            behaviours.count()
        )));
    }
    let transport = match arguments.transport {
        Some(transport) => transport,
        None if name.starts_with("ws:") || name.starts_with("wss:") => Transport::WebSocket,
        None => Transport::Sse,
    };
    let check = match arguments.check.mixed {
        true => Check::NOTHING,
        false => Check {
            ids: arguments.check.ids,
            ..Check::default()
        },
    };
    Ok(Options {
        first: arguments.first,
        threads: arguments.room.threads,
        private_fds: arguments.room.private_fds,
        window: arguments.pace.window,
        ramp: arguments.pace.ramp,
        authorities: arguments.tls.authorities.authorities(),
        resumption: Resumption::of(arguments.tls.tls_resume),
        headers: arguments.headers.clone(),
        credentials: credentials(&arguments.credentials)?,
        sources: arguments.room.source.clone(),
        behaviours,
        check,
        recovery: arguments
            .recovery
            .resume
            .then_some(arguments.recovery.options),
        ..Options::new(targets, name, connections, transport)
    })
}

/// Returns the credentials of the clients.
fn credentials(arguments: &CredentialArguments) -> Result<Credentials, Failure> {
    let (path, is_secret) = match (&arguments.token_file, &arguments.jwt_secret_file) {
        (Some(path), _) => (path, false),
        (None, Some(path)) => (path, true),
        (None, None) => return Ok(Credentials::None),
    };
    let misused = |what: &dyn Display| Failure::misused(format_args!("{}: {what}", path.display()));
    let bytes = fs::read(path).map_err(|error| misused(&error))?;
    if is_secret {
        let mut claims = arguments.jwt_claims.clone().unwrap_or_default();
        let end = SystemTime::now() + arguments.jwt_ttl;
        let end = end.duration_since(UNIX_EPOCH).unwrap_or_default();
        claims.entry("exp").or_insert(end.as_secs().into());
        let signer = TokenSigner::new(&bytes, claims).map_err(|error| misused(&error))?;
        return Ok(Credentials::Signed(Box::new(signer)));
    }
    Credentials::list(&String::from_utf8_lossy(&bytes)).map_err(|error| misused(&error))
}

/// Returns the addresses to connect to, and their name in reports.
fn targets(arguments: &ClientArguments) -> Result<(Targets, String), Failure> {
    if let Some(path) = &arguments.urls {
        let name = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::misused(format_args!("{name} cannot be read: {error}")))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let targets = Targets::list(lines)
            .map_err(|failure| Failure::misused(format_args!("{name}: {failure}")))?;
        return Ok((targets, name));
    }
    let url = arguments.url.as_deref().unwrap_or_default();
    let targets = Targets::one(url).map_err(Failure::misused)?;
    Ok((targets, url.to_owned()))
}
