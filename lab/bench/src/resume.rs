//! Benchmark of sessions that resume: with nothing missed, and with events to catch up, compared
//! with nginx with nchan and Centrifugo.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use client::control_client::{ControlClient, EventMetadata};
use client::http::{Connection, Url};
use machine::failure::{Context, Failure, Outcome};
use machine::host;

use crate::body::{Lines, batch, edges};
use crate::centrifugo::Centrifugo;
use crate::child::Server;
use crate::config::{BenchConfig, SUBJECT, at_least_one, publish_whole};
use crate::cost::{Ramp, median_of};
use crate::kernel_settings::ChangedSettings;
use crate::nginx::{self, Nginx};
use crate::processes::{Clients, Side};
use crate::report::Report;

/// Time limit for all clients to catch up, in seconds.
const CATCH_UP_SECONDS: u64 = 300;

/// Payload, about as long as a short chat message.
const PAYLOAD: &str = "hello, this is an event that was missed by somebody who had to go";

/// Size of the history: no event is evicted within a round.
const HISTORY_BYTES: &str = "1GiB";

/// First id that clients follow, and first id that no client follows.
const FOLLOWED: u32 = 100_000_000;
const STRANGE: u32 = 200_000_000;

/// Size of the benchmark.
#[derive(Debug, Clone, Args)]
pub struct Parameters {
    /// Sessions
    #[arg(long, default_value_t = 10_000)]
    pub connections: u32,
    /// Rounds of each kind
    #[arg(long, default_value = "5", value_parser = at_least_one)]
    pub rounds: u32,
    /// Events that each session has missed
    #[arg(long, default_value = "100", value_parser = at_least_one)]
    pub missed: u32,
    /// Subjects that each session follows in the rounds with nothing missed
    #[arg(long, default_value_t = 200)]
    pub follows: u32,
    /// Events about other subjects published meanwhile
    #[arg(long, default_value_t = 100_000)]
    pub behind: u32,
    /// Do not compare with nginx
    #[arg(long)]
    pub alone: bool,
    /// Program of nginx, for which Debian's nchan module is installed
    #[arg(long, default_value = "/usr/sbin/nginx")]
    pub nginx: PathBuf,
    /// Program of Centrifugo 5, to compare with it
    #[arg(long)]
    pub centrifugo: Option<PathBuf>,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails, or a client misses an event.
pub fn run(setting: &BenchConfig, parameters: &Parameters) -> Outcome<Report> {
    let _lent = ChangedSettings::for_flood(setting.connections);
    let mut setting = setting.clone();
    let history = ["--history-bytes", HISTORY_BYTES].map(str::to_owned);
    setting.server_arguments.extend(history);
    let mut report = Report::new(format!(
        "Resume, {} sessions that come back",
        setting.connections
    ));
    find(&setting, parameters, &mut report)?;
    catch_up(&setting, parameters, &mut report)?;
    if !parameters.alone {
        let catch_up = || catch_up_nchan(&setting, parameters, &parameters.nginx);
        let ramps = rounds(parameters, catch_up)?;
        report_cost("nginx with nchan: catch up", &ramps, &mut report);
    }
    if let Some(program) = &parameters.centrifugo {
        let ramps = rounds(parameters, || {
            catch_up_centrifugo(&setting, parameters, program)
        })?;
        report_cost("Centrifugo: catch up", &ramps, &mut report);
    }
    Ok(report)
}

fn rounds(
    parameters: &Parameters,
    mut measure: impl FnMut() -> Outcome<Ramp>,
) -> Outcome<Vec<Ramp>> {
    (0..parameters.rounds).map(|_| measure()).collect()
}

/// Measures sessions that missed nothing: the cost of the search is the difference to sessions
/// without a cursor.
fn find(setting: &BenchConfig, parameters: &Parameters, report: &mut Report) -> Outcome<()> {
    let server = setting.start_server()?;
    let mut control = server.control()?;
    control.subscribe_many(&mut follows(setting.connections, parameters.follows))?;
    let cursor = cursor(&mut control)?;
    let strange = STRANGE..STRANGE + parameters.behind;
    publish_whole(&mut control, &mut batch(strange, PAYLOAD))?;
    let (mut plain, mut found) = (Vec::new(), Vec::new());
    for _ in 0..parameters.rounds {
        plain.push(reconnect(setting, &server, None, 0)?);
        found.push(reconnect(setting, &server, Some(&cursor), 0)?);
    }
    report_cost("without a cursor", &plain, report);
    let name = format!(
        "follows {}, {} behind",
        parameters.follows, parameters.behind
    );
    report_cost(&name, &found, report);
    let user = |ramps: &[Ramp]| median_of(ramps, |ramp| ramp.user_us);
    let beyond = user(&found) - user(&plain);
    report.figure("user, beyond one without a cursor", beyond, "us/session");
    Ok(())
}

/// Measures sessions that missed events: about a common subject, then about the client itself.
fn catch_up(setting: &BenchConfig, parameters: &Parameters, report: &mut Report) -> Outcome<()> {
    let clients = setting.connections;
    let events = u64::from(clients) * u64::from(parameters.missed);
    let server = setting.start_server()?;
    let mut control = server.control()?;
    control.subscribe_many(&mut edges(0, clients, SUBJECT))?;
    for (name, own) in [
        ("catch up on one subject", false),
        ("catch up, each its own", true),
    ] {
        let cursor = cursor(&mut control)?;
        for _ in 0..parameters.missed {
            match own {
                true => publish_whole(&mut control, &mut batch(0..clients, PAYLOAD))?,
                false => publish_whole(&mut control, &mut batch([SUBJECT], PAYLOAD))?,
            }
        }
        let reconnect = || reconnect(setting, &server, Some(&cursor), events);
        report_cost(name, &rounds(parameters, reconnect)?, report);
    }
    Ok(())
}

fn catch_up_nchan(setting: &BenchConfig, parameters: &Parameters, program: &Path) -> Outcome<Ramp> {
    let address = host::free_loopback_address()?;
    let nginx = Nginx::start(program, &channels(address, parameters.missed), address)?;
    let url = Url::parse(&format!("http://{address}"))?;
    let mut publisher = Connection::open(&url, None).context("connecting to nginx")?;
    for _ in 0..parameters.missed {
        nginx::publish(&mut publisher, "all", PAYLOAD.as_bytes())?;
    }
    let events = u64::from(setting.connections) * u64::from(parameters.missed);
    let url = format!("http://{address}/events/all");
    measure_reconnect(setting, nginx.pid(), &url, &[], events)
}

fn catch_up_centrifugo(
    setting: &BenchConfig,
    parameters: &Parameters,
    program: &Path,
) -> Outcome<Ramp> {
    let address = host::free_loopback_address()?;
    let mut centrifugo = Centrifugo::start(program, address, parameters.missed)?;
    for _ in 0..parameters.missed {
        centrifugo.publish(PAYLOAD)?;
    }
    let url = centrifugo.recovery_url()?;
    // All missed messages of a client arrive in one event.
    let events = setting.connections.into();
    measure_reconnect(setting, centrifugo.pid(), &url, &[], events)
}

/// Returns `server` blocks for channels that keep `messages` messages. A subscriber gets all of
/// them, like one that resumes from the message before the first.
fn channels(address: SocketAddr, messages: u32) -> String {
    format!(
        "server {{ listen {address} backlog=65535;\n\
         location ~ ^/events/(.+)$ {{ nchan_subscriber eventsource; nchan_channel_id $1;\n\
         nchan_subscriber_first_message oldest; }}\n\
         location ~ ^/publish/(.+)$ {{ nchan_publisher; nchan_channel_id $1;\n\
         nchan_message_buffer_length {messages}; nchan_message_timeout 1h; }} }}\n"
    )
}

/// Reconnects all clients to the server; together they catch up `events` events.
fn reconnect(
    setting: &BenchConfig,
    server: &Server,
    cursor: Option<&str>,
    events: u64,
) -> Outcome<Ramp> {
    let url = format!("http://{}/events/{{n}}", server.public);
    let flags: Vec<String> = cursor
        .map(|cursor| ["--header".to_owned(), format!("Last-Event-ID: {cursor}")])
        .into_iter()
        .flatten()
        .collect();
    measure_reconnect(setting, server.pid(), &url, &flags, events)
}

fn measure_reconnect(
    setting: &BenchConfig,
    pid: u32,
    url: &str,
    flags: &[String],
    events: u64,
) -> Outcome<Ramp> {
    let start = || Clients::open(setting, Side::Server, url, 0, setting.connections, flags);
    let back = Ramp::measure(pid, start, |clients, opened| {
        if events == 0 {
            return Ok(opened);
        }
        let seen = clients.events(events, CATCH_UP_SECONDS)?;
        if seen.totals.counts.events > events {
            return Err(Failure::new(format!(
                "clients received {} events, but had missed {events}",
                seen.totals.counts.events
            )));
        }
        Ok(seen)
    })?;
    eprintln!(
        "{events} events: {:.2} s, {:.1} us a session, {:.1} user",
        back.seconds, back.total_us, back.user_us
    );
    Ok(back)
}

fn report_cost(name: &str, ramps: &[Ramp], report: &mut Report) {
    report.part(format!("{name}: "));
    report.figure("time", median_of(ramps, |ramp| ramp.seconds), "s");
    report.figure(
        "processor",
        median_of(ramps, |ramp| ramp.total_us),
        "us/session",
    );
    report.figure("user", median_of(ramps, |ramp| ramp.user_us), "us/session");
}

/// Publishes an event and returns its id as a cursor.
fn cursor(control: &mut ControlClient) -> Outcome<String> {
    let subject = STRANGE.to_string();
    let receipt = control.publish(&subject, b"now", EventMetadata::default())?;
    Ok(receipt.id)
}

/// Generates edges by which each of `clients` clients follows `each` subjects.
fn follows(clients: u32, each: u32) -> impl std::io::Read {
    let pairs = (0..clients).flat_map(move |one| (0..each).map(move |step| (one, step)));
    Lines::new(pairs.map(move |(one, step)| {
        // Neighbours share most of their subjects, but no two clients follow the same set.
        let subject = FOLLOWED + (one + step * 7) % clients.max(each * 7);
        format!("{one} {subject}\n")
    }))
}
