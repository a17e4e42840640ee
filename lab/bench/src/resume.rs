//! Benchmark of sessions that resume: with nothing missed, and with events to catch up, compared
//! with nginx with nchan and Centrifugo.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use client::control_client::{ControlClient, EventMetadata};
use client::http::{Connection, Url};
use machine::failure::{Context, Failure, Outcome};
use machine::host;
use recorder::measure::{CpuTime, median};

use crate::body::{Lines, batch, edges};
use crate::centrifugo::Centrifugo;
use crate::child::{self, Server};
use crate::config::{BenchConfig, SUBJECT, publish_whole};
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
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Rounds of each kind.
    pub rounds: u32,
    /// Events that each client has missed.
    pub missed: u32,
    /// Subjects that each client follows in the rounds with nothing missed.
    pub follows: u32,
    /// Events about other subjects published meanwhile.
    pub behind: u32,
    /// Program of nginx. `None`: no comparison with it.
    pub nginx: Option<PathBuf>,
    /// Program of Centrifugo. `None`: no comparison with it.
    pub centrifugo: Option<PathBuf>,
}

/// Cost of one reconnect of all clients.
#[derive(Debug, Clone, Copy)]
struct Return {
    seconds: f64,
    cpu_us: f64,
    user_us: f64,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails, or a client misses an event.
pub fn run(setting: &BenchConfig, extent: &Parameters) -> Outcome<Report> {
    let _lent = child::raise_settings(setting.connections.into());
    let mut setting = setting.clone();
    let history = ["--history-bytes", HISTORY_BYTES].map(str::to_owned);
    setting.server_arguments.extend(history);
    let mut report = Report::new(format!(
        "Resume, {} sessions that come back",
        setting.connections
    ));
    find(&setting, extent, &mut report)?;
    catch_up(&setting, extent, &mut report)?;
    if let Some(program) = &extent.nginx {
        let mut returns = Vec::new();
        for _ in 0..extent.rounds {
            returns.push(catch_up_nchan(&setting, extent, program)?);
        }
        report_cost("nginx with nchan: catch up", &returns, &mut report);
    }
    if let Some(program) = &extent.centrifugo {
        let mut returns = Vec::new();
        for _ in 0..extent.rounds {
            returns.push(catch_up_centrifugo(&setting, extent, program)?);
        }
        report_cost("Centrifugo: catch up", &returns, &mut report);
    }
    Ok(report)
}

/// Measures sessions that missed nothing: the cost of the search is the difference to sessions
/// without a cursor.
fn find(setting: &BenchConfig, extent: &Parameters, report: &mut Report) -> Outcome<()> {
    let server = setting.start_server()?;
    let mut control = server.control()?;
    control.subscribe_many(&mut follows(setting.connections, extent.follows))?;
    let cursor = cursor(&mut control)?;
    publish_whole(
        &mut control,
        &mut batch(STRANGE..STRANGE + extent.behind, PAYLOAD),
    )?;
    let (mut plain, mut found) = (Vec::new(), Vec::new());
    for _ in 0..extent.rounds {
        plain.push(reconnect(setting, &server, None, 0)?);
        found.push(reconnect(setting, &server, Some(&cursor), 0)?);
    }
    report_cost("without a cursor", &plain, report);
    let name = format!("follows {}, {} behind", extent.follows, extent.behind);
    report_cost(&name, &found, report);
    let users = |all: &[Return]| median(&all.iter().map(|one| one.user_us).collect::<Vec<f64>>());
    report.figure(
        format!("{name}: user, beyond one without a cursor"),
        users(&found) - users(&plain),
        "us/session",
    );
    Ok(())
}

/// Measures sessions that missed events: about a common subject, then about the client itself.
fn catch_up(setting: &BenchConfig, extent: &Parameters, report: &mut Report) -> Outcome<()> {
    let clients = setting.connections;
    let events = u64::from(clients) * u64::from(extent.missed);
    let server = setting.start_server()?;
    let mut control = server.control()?;
    control.subscribe_many(&mut edges(0, clients, SUBJECT))?;
    for (name, own) in [
        ("catch up on one subject", false),
        ("catch up, each its own", true),
    ] {
        let cursor = cursor(&mut control)?;
        for _ in 0..extent.missed {
            match own {
                true => publish_whole(&mut control, &mut batch(0..clients, PAYLOAD))?,
                false => publish_whole(&mut control, &mut batch([SUBJECT], PAYLOAD))?,
            }
        }
        let mut returns = Vec::new();
        for _ in 0..extent.rounds {
            returns.push(reconnect(setting, &server, Some(&cursor), events)?);
        }
        report_cost(name, &returns, report);
    }
    Ok(())
}

fn catch_up_nchan(setting: &BenchConfig, extent: &Parameters, program: &Path) -> Outcome<Return> {
    let address = host::free_loopback_address()?;
    let nginx = Nginx::start(program, &channels(address, extent.missed), address)?;
    let url = Url::parse(&format!("http://{address}"))?;
    let mut publisher = Connection::open(&url).context("connecting to nginx")?;
    for _ in 0..extent.missed {
        nginx::publish(&mut publisher, "all", PAYLOAD.as_bytes())?;
    }
    let events = u64::from(setting.connections) * u64::from(extent.missed);
    let url = format!("http://{address}/events/all");
    measure_reconnect(setting, nginx.pid(), &url, &[], events)
}

fn catch_up_centrifugo(
    setting: &BenchConfig,
    extent: &Parameters,
    program: &Path,
) -> Outcome<Return> {
    let address = host::free_loopback_address()?;
    let mut centrifugo = Centrifugo::start(program, address, extent.missed)?;
    for _ in 0..extent.missed {
        centrifugo.publish(PAYLOAD)?;
    }
    let url = centrifugo.recovery_url()?;
    // All missed messages of a client arrive in one event.
    measure_reconnect(
        setting,
        centrifugo.pid(),
        &url,
        &[],
        setting.connections.into(),
    )
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
) -> Outcome<Return> {
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
) -> Outcome<Return> {
    let before = CpuTime::of(pid)?;
    let mut clients = Clients::open(setting, Side::Server, url, 0, setting.connections, flags)?;
    let mut seen = clients.opened()?;
    if events > 0 {
        seen = clients.events(events, CATCH_UP_SECONDS)?;
        if seen.events > events {
            return Err(Failure::new(format!(
                "clients received {} events, but had missed {events}",
                seen.events
            )));
        }
    }
    let spent = &CpuTime::of(pid)? - &before;
    clients.quit();
    let sessions = f64::from(setting.connections);
    // Ticks are coarse, so only their ratio is used, applied to the exact total.
    let ticks = (spent.user + spent.system).max(1) as f64;
    let cpu_us = spent.total as f64 / 1000.0 / sessions;
    let back = Return {
        seconds: seen.seconds,
        cpu_us,
        user_us: cpu_us * spent.user as f64 / ticks,
    };
    eprintln!(
        "{events} events: {:.2} s, {:.1} us a session, {:.1} user",
        back.seconds, back.cpu_us, back.user_us
    );
    Ok(back)
}

fn report_cost(name: &str, returns: &[Return], report: &mut Report) {
    let middle = |of: fn(&Return) -> f64| median(&returns.iter().map(of).collect::<Vec<f64>>());
    report.figure(format!("{name}: time"), middle(|one| one.seconds), "s");
    report.figure(
        format!("{name}: processor"),
        middle(|one| one.cpu_us),
        "us/session",
    );
    report.figure(
        format!("{name}: user"),
        middle(|one| one.user_us),
        "us/session",
    );
}

/// Publishes an event and returns its id as a cursor.
fn cursor(control: &mut ControlClient) -> Outcome<String> {
    let subject = STRANGE.to_string();
    let receipt = control.publish(&subject, b"now", EventMetadata::default())?;
    Ok(receipt.id)
}

/// Generates edges by which each of `clients` clients follows `each` subjects.
fn follows(clients: u32, each: u32) -> impl std::io::Read {
    let mut pairs = (0..clients).flat_map(move |one| (0..each).map(move |step| (one, step)));
    Lines::new(move |out: &mut Vec<u8>| {
        pairs.next().is_some_and(|(one, step)| {
            // Neighbours share most of their subjects, but no two clients follow the same set.
            let subject = FOLLOWED + (one + step * 7) % clients.max(each * 7);
            out.extend_from_slice(format!("{one} {subject}\n").as_bytes());
            true
        })
    })
}
