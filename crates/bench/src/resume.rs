//! Cost of sessions that come back: to find that nothing was missed, and to catch up, beside nginx
//! with nchan and Centrifugo.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::body::{Lines, batch, edges};
use crate::centrifugo::Centrifugo;
use crate::child::{self, Server};
use crate::config::{BenchConfig, SUBJECT, publish_whole};
use crate::nginx::{self, Nginx};
use crate::processes::{Clients, Side};
use crate::report::Report;
use client::control_client::{ControlClient, EventMetadata};
use client::http::{Connection, Url};
use machine::failure::{Context, Failure, Outcome};
use machine::host;
use machine::measure::{CpuTime, median};

/// Time for all events to be caught up.
const CATCH_UP_SECONDS: u64 = 300;

/// The payload: with its framing about as long as a short chat message.
const PAYLOAD: &str = "hello, this is an event that was missed by somebody who had to go";

/// Memory of the history: no event of a round leaves it.
const HISTORY_BYTES: &str = "1GiB";

/// The first id of those that clients follow, and of those that nobody does.
const FOLLOWED: u32 = 100_000_000;
const STRANGE: u32 = 200_000_000;

/// How much is measured.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Rounds of each kind.
    pub rounds: u32,
    /// Events that each client has missed.
    pub missed: u32,
    /// Subjects that each client follows, when nothing was missed.
    pub follows: u32,
    /// Events about other subjects since then.
    pub behind: u32,
    /// Program of nginx; nothing leaves it out.
    pub nginx: Option<PathBuf>,
    /// Program of Centrifugo; nothing leaves it out.
    pub centrifugo: Option<PathBuf>,
}

/// What one return of all clients took.
#[derive(Debug, Clone, Copy)]
struct Return {
    seconds: f64,
    cpu_us: f64,
    user_us: f64,
}

/// Measures.
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
        tell("nginx with nchan: catch up", &returns, &mut report);
    }
    if let Some(program) = &extent.centrifugo {
        let mut returns = Vec::new();
        for _ in 0..extent.rounds {
            returns.push(catch_up_centrifugo(&setting, extent, program)?);
        }
        tell("Centrifugo: catch up", &returns, &mut report);
    }
    Ok(report)
}

/// Nothing was missed: the price of the search, as the difference to sessions without a cursor.
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
        plain.push(come(setting, &server, None, 0)?);
        found.push(come(setting, &server, Some(&cursor), 0)?);
    }
    tell("without a cursor", &plain, report);
    let name = format!("follows {}, {} behind", extent.follows, extent.behind);
    tell(&name, &found, report);
    let users = |all: &[Return]| median(&all.iter().map(|one| one.user_us).collect::<Vec<f64>>());
    report.figure(
        format!("{name}: user, beyond one without a cursor"),
        users(&found) - users(&plain),
        "us/session",
    );
    Ok(())
}

/// Each client has missed events: about a subject of all, then about itself.
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
            returns.push(come(setting, &server, Some(&cursor), events)?);
        }
        tell(name, &returns, report);
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
    returned(setting, nginx.pid(), &url, &[], events)
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
    // All that a client has missed is in one event.
    returned(
        setting,
        centrifugo.pid(),
        &url,
        &[],
        setting.connections.into(),
    )
}

/// Channels that keep so many messages. A subscriber gets all that is kept, which is what one gets
/// that names the message before it.
fn channels(address: SocketAddr, messages: u32) -> String {
    format!(
        "server {{ listen {address} backlog=65535;\n\
         location ~ ^/events/(.+)$ {{ nchan_subscriber eventsource; nchan_channel_id $1;\n\
         nchan_subscriber_first_message oldest; }}\n\
         location ~ ^/publish/(.+)$ {{ nchan_publisher; nchan_channel_id $1;\n\
         nchan_message_buffer_length {messages}; nchan_message_timeout 1h; }} }}\n"
    )
}

/// All clients come back to the server, and catch up so many events together.
fn come(
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
    returned(setting, server.pid(), &url, &flags, events)
}

fn returned(
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
                "clients got {} events where {events} were missed",
                seen.events
            )));
        }
    }
    let spent = &CpuTime::of(pid)? - &before;
    clients.quit();
    let sessions = f64::from(setting.connections);
    // Ticks are coarse: their ratio says how much of the exact time was user time.
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

fn tell(name: &str, returns: &[Return], report: &mut Report) {
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

/// The id of an event that was published now.
fn cursor(control: &mut ControlClient) -> Outcome<String> {
    let subject = STRANGE.to_string();
    let receipt = control.publish(&subject, b"now", EventMetadata::default())?;
    Ok(receipt.id)
}

/// Edges by which each client follows so many subjects, of as many as there are clients.
fn follows(clients: u32, each: u32) -> impl std::io::Read {
    let mut pairs = (0..clients).flat_map(move |one| (0..each).map(move |step| (one, step)));
    Lines::new(move |out: &mut Vec<u8>| {
        pairs.next().is_some_and(|(one, step)| {
            // Neighbours share most of what they follow, and no two follow the same.
            let subject = FOLLOWED + (one + step * 7) % clients.max(each * 7);
            out.extend_from_slice(format!("{one} {subject}\n").as_bytes());
            true
        })
    })
}
