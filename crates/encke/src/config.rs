//! The configuration of `encke serve`: file below environment below flags.
//!
//! Owns what each value means and which of them go together. All that is wrong is found in one
//! pass, so that it can be put right in one.

mod keys;
mod layers;
mod print;
mod secret;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgMatches, Command};
use router::WORKERS_MAX;
use server::Settings;
use tracing_subscriber::filter::LevelFilter;

use crate::units;
use keys::{KEYS, Key, Otherwise};
use layers::{Layer, Layers, Source};
pub(crate) use print::print;
pub(crate) use secret::Secret;

/// The shortest times that make sense where zero does not.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// Beyond a day nobody waits; timers and socket options hold that much.
const TIME_MAX: Duration = Duration::from_secs(86_400);

/// The kernel counts keepalive in whole seconds, up to 32,767 of them.
const USER_TIMEOUT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(32_767));

/// The smallest and the largest bound on an event: a line of text; what a worker's buffers and a
/// browser take without harm.
const EVENT_BYTES: (usize, usize) = (64, 64 << 20);

/// How to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Lines for a person.
    Text,
    /// An object a line.
    Json,
}

/// What the server runs on. Built once at start.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) control: SocketAddr,
    pub(crate) allow_anonymous: bool,
    pub(crate) token: Option<Secret>,
    pub(crate) event_bytes: usize,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: LevelFilter,
    pub(crate) ports_file: Option<PathBuf>,
    /// Those of the data path. Whether there is a relay is known only when the listeners are.
    pub(crate) settings: Settings,
}

/// The flags of `encke serve` that are settings.
pub(crate) fn add_flags(command: Command) -> Command {
    command.args(KEYS.iter().map(Key::argument))
}

/// Gathers what the file, the environment and the flags say.
pub(crate) fn gather(file: Option<&Path>, matches: &ArgMatches) -> (Layers, Vec<String>) {
    let mut problems = Vec::new();
    let mut layers = Layers::default();
    if let Some(path) = file {
        match fs::read_to_string(path) {
            Ok(text) => {
                let layer = Layer::of_file(path, &text, &mut problems);
                layers.lay(&Source::File(path.to_owned()), layer);
            }
            Err(error) => problems.push(format!(
                "the configuration file {} cannot be read: {error}",
                path.display()
            )),
        }
    }
    let environment = Layer::of_environment(std::env::vars_os(), &mut problems);
    layers.lay(&Source::Environment, environment);
    layers.lay(&Source::Flag, Layer::of_flags(matches));
    (layers, problems)
}

/// Makes sense of what was gathered.
///
/// # Errors
///
/// A sentence for each thing that is wrong, those in `problems` first.
pub(crate) fn resolve(layers: &Layers, problems: Vec<String>) -> Result<Config, Vec<String>> {
    let mut reader = Reader { layers, problems };
    let config = reader.config();
    match reader.problems {
        problems if problems.is_empty() => Ok(config),
        problems => Err(problems),
    }
}

/// Refuses a public listener that anybody could reach and be anybody at.
pub(crate) fn check_public(address: SocketAddr, allow_anonymous: bool) -> Result<(), String> {
    if allow_anonymous || address.ip().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "clients on other machines could reach {address} and log in as anybody, as no \
         authentication is configured; listen on 127.0.0.1, or pass --allow-anonymous if that is \
         what you want"
    ))
}

/// Refuses a control listener that anybody could reach and publish at.
pub(crate) fn check_control(address: SocketAddr, has_token: bool) -> Result<(), String> {
    if has_token || address.ip().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "programs on other machines could reach the control listener at {address} and publish; \
         set a token with --control-token-file, or listen on 127.0.0.1"
    ))
}

/// Reads one setting after another, and notes what is wrong.
struct Reader<'a> {
    layers: &'a Layers,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn config(&mut self) -> Config {
        let listen = self.get("listen", address);
        let control = self.get("control", address);
        let allow_anonymous = self.get("allow-anonymous", switch);
        let token = self.token();
        if control.port() != 0 && listen == control {
            self.problems.push(format!(
                "clients and control both would listen at {listen}; give one of them another port \
                 with --listen or --control"
            ));
        }
        let checks = [
            check_public(listen, allow_anonymous),
            check_control(control, token.is_some()),
        ];
        self.problems
            .extend(checks.into_iter().filter_map(Result::err));
        Config {
            listen,
            control,
            allow_anonymous,
            token,
            event_bytes: self.get("event-bytes", event_bytes),
            log_format: self.get("log-format", log_format),
            log_level: self.get("log-level", log_level),
            ports_file: self.find("ports-file", |text| Ok(PathBuf::from(text))),
            settings: self.settings(),
        }
    }

    fn settings(&mut self) -> Settings {
        Settings {
            workers: self
                .find("workers", workers)
                .unwrap_or_else(default_workers),
            private_fds: self.get("private-fds", switch),
            max_connections: self.find("max-connections", count).unwrap_or(usize::MAX),
            max_connections_per_address: self.find("max-connections-per-address", count),
            head_timeout: self.get("head-timeout", timeout),
            heartbeat: self.get("heartbeat", heartbeat),
            retry: self.get("retry", time),
            backlog_bytes: self.get("backlog-bytes", units::size),
            stall_timeout: self.get("stall-timeout", timeout),
            user_timeout: self.get("user-timeout", user_timeout),
            drain_timeout: self.get("drain-timeout", time),
            drain_spread: self.get("drain-spread", time),
            cors_origins: self.origins(),
            relay: false,
        }
    }

    /// A setting that has a default.
    fn get<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        let default = match known(name).default {
            Otherwise::Is(text) => text,
            _ => unreachable!("{name} has no default text"),
        };
        let found = self.find(name, &parse);
        found.unwrap_or_else(|| parse(default).expect("a default is well-formed"))
    }

    /// A setting that may be absent. What is wrong is noted and counts as absent.
    fn find<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let key = known(name);
        let (source, texts) = self.layers.get(key)?;
        let text = texts.last()?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(needed) => {
                let name = source.name_of(key);
                let shown = if key.secret {
                    "not usable"
                } else {
                    &format!("`{text}`")
                };
                self.problems.push(format!("{name} is {shown}: {needed}"));
                None
            }
        }
    }

    fn origins(&mut self) -> Vec<String> {
        let key = known("cors-origin");
        let Some((source, texts)) = self.layers.get(key) else {
            return Vec::new();
        };
        for text in texts {
            if let Err(needed) = origin(text) {
                self.problems
                    .push(format!("{} has `{text}`: {needed}", source.name_of(key)));
            }
        }
        texts.to_vec()
    }

    /// The token, or the content of its file, whichever the later source says.
    fn token(&mut self) -> Option<Secret> {
        let (plain, file) = (known("control-token"), known("control-token-file"));
        match (self.layers.get(plain), self.layers.get(file)) {
            (Some((source, _)), Some((of_file, _))) if source == of_file => {
                self.problems.push(format!(
                    "{} and {} are both given; one of them is enough",
                    source.name_of(plain),
                    of_file.name_of(file)
                ));
                None
            }
            (Some((source, _)), Some((of_file, _))) if of_file > source => self.token_file(),
            (Some(_), _) => self.find("control-token", Secret::parse),
            (None, _) => self.token_file(),
        }
    }

    fn token_file(&mut self) -> Option<Secret> {
        self.find("control-token-file", |path| Secret::read(Path::new(path)))
    }
}

fn known(name: &str) -> &'static Key {
    Key::find(name).expect("only names from the table are asked for")
}

/// One for each core that this process may use.
fn default_workers() -> u16 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(cores).unwrap_or(WORKERS_MAX).min(WORKERS_MAX)
}

/// An address to listen at. `http://` before it is taken as well, so that one variable serves the
/// server and its clients.
fn address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix("http://").unwrap_or(text);
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    if let Some(port) = bare.strip_prefix("localhost:")
        && let Ok(port) = port.parse()
    {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    bare.parse().map_err(|_| {
        "an address to listen at is an IP address and a port, like 127.0.0.1:8000 or [::1]:8000"
            .to_owned()
    })
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("say true or false".to_owned()),
    }
}

fn workers(text: &str) -> Result<u16, String> {
    let count = text
        .parse()
        .ok()
        .filter(|&count| (1..=WORKERS_MAX).contains(&count));
    count.ok_or_else(|| format!("from 1 to {WORKERS_MAX} workers are possible"))
}

fn count<T: std::str::FromStr + From<u8> + PartialOrd>(text: &str) -> Result<T, String> {
    let count = text.parse().ok().filter(|count| *count >= T::from(1));
    count.ok_or_else(|| "a whole number of at least 1 is needed".to_owned())
}

fn event_bytes(text: &str) -> Result<usize, String> {
    let (least, most) = EVENT_BYTES;
    within(units::size(text)?, least, most)
        .ok_or_else(|| "an event may be allowed from 64 bytes to 64 MiB".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    within(units::duration(text)?, Duration::ZERO, TIME_MAX)
        .ok_or_else(|| "at most a day is possible".to_owned())
}

fn timeout(text: &str) -> Result<Duration, String> {
    within(units::duration(text)?, TIMEOUT_MIN, TIME_MAX)
        .ok_or_else(|| "from 100ms to a day are possible".to_owned())
}

fn heartbeat(text: &str) -> Result<Duration, String> {
    match time(text)? {
        time if time.is_zero() || time >= TIMEOUT_MIN => Ok(time),
        _ => Err("at least 100ms are needed, or 0 for no heartbeats".to_owned()),
    }
}

fn user_timeout(text: &str) -> Result<Duration, String> {
    let (least, most) = USER_TIMEOUT;
    within(units::duration(text)?, least, most)
        .ok_or_else(|| "from 1s to 9h are possible".to_owned())
}

fn within<T: PartialOrd>(value: T, least: T, most: T) -> Option<T> {
    (least <= value && value <= most).then_some(value)
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("say text or json".to_owned()),
    }
}

fn log_level(text: &str) -> Result<LevelFilter, String> {
    // The parser takes numbers as well, which nobody could read.
    let level = text
        .parse()
        .ok()
        .filter(|_| text.bytes().all(|byte| byte.is_ascii_alphabetic()));
    level.ok_or_else(|| "say off, error, warn, info, debug or trace".to_owned())
}

/// An origin as browsers send it (RFC 6454, section 6.2): compared as text, so its form matters.
fn origin(text: &str) -> Result<(), String> {
    let bare = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let well_formed = text == "*"
        || text == "null"
        || bare.is_some_and(|bare| {
            !bare.is_empty()
                && bare
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && byte != b'/')
        });
    if well_formed {
        return Ok(());
    }
    Err(
        "an origin is a scheme and a host without a slash behind it, like https://example.org, or \
         * for all"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests;
